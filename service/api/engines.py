"""`/engines`: the engines that can be quoted, and what each keeps for itself."""

from service.api.catalog_reads import Kind
from service.api.catalog_resource import Documents, catalog_resource
from service.api.schemas.engines import ENGINE_ENTRY, ENGINES_PAGE, ENGINES_QUERY, EngineRow
from service.domain.catalog import CatalogKind

_KIND = Kind(kind=CatalogKind.ENGINE, path="/engines", query=ENGINES_QUERY, columns=tuple(EngineRow().fields))

engines = catalog_resource(
    _KIND, Documents("Engine", "Engines", "an engine", "What engines keep for themselves.", ENGINES_PAGE, ENGINE_ENTRY)
)
