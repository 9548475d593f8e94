"""`/gpus`: the devices that can be asked about, and what is known of each."""

from service.api.catalog_reads import Kind
from service.api.catalog_resource import Documents, catalog_resource
from service.api.schemas.gpus import GPU_ENTRY, GPUS_PAGE, GPUS_QUERY, GpuRow
from service.domain.catalog import CatalogKind

_KIND = Kind(
    kind=CatalogKind.GPU,
    path="/gpus",
    query=GPUS_QUERY,
    columns=tuple(GpuRow().fields),
    references={"mig_parent": CatalogKind.GPU},
)

gpus = catalog_resource(_KIND, Documents("Gpu", "Gpus", "a GPU", "Devices and slices of them.", GPUS_PAGE, GPU_ENTRY))
