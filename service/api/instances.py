"""`/instances`: machines that clouds rent, with indicative prices."""

from service.api.catalog_reads import Kind
from service.api.catalog_resource import Documents, catalog_resource
from service.api.schemas.instances import INSTANCE_ENTRY, INSTANCES_PAGE, INSTANCES_QUERY, InstanceRow
from service.domain.catalog import CatalogKind

_KIND = Kind(
    kind=CatalogKind.INSTANCE,
    path="/instances",
    query=INSTANCES_QUERY,
    columns=tuple(InstanceRow().fields),
    references={"gpu": CatalogKind.GPU},
)

instances = catalog_resource(
    _KIND,
    Documents("Instance", "Instances", "an instance", "Machines that clouds rent.", INSTANCES_PAGE, INSTANCE_ENTRY),
)
