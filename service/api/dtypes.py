"""`/dtypes`: the number formats that weights and caches are stored in."""

from service.api.catalog_reads import Kind
from service.api.catalog_resource import Documents, catalog_resource
from service.api.schemas.dtypes import DTYPE_ENTRY, DTYPES_PAGE, DTYPES_QUERY, DtypeRow
from service.domain.catalog import CatalogKind

_KIND = Kind(kind=CatalogKind.DTYPE, path="/dtypes", query=DTYPES_QUERY, columns=tuple(DtypeRow().fields))

dtypes = catalog_resource(
    _KIND,
    Documents("Dtype", "Dtypes", "a number format", "Number formats of weights and caches.", DTYPES_PAGE, DTYPE_ENTRY),
)
