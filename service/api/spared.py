"""Conditional GETs of single catalog entries whose client has the present one, answered before Flask is asked.

Dashboards poll entries. Matching a route and making a request and a response takes longer than all that such an
answer needs, so it is given here where nothing could change it. Whatever else is asked goes the long way.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from service.api.asking import TAKES_JSON
from service.api.conditional import CACHE_CONTROL, entry_tag
from service.domain.catalog import CatalogKind
from service.domain.errors import QuoteError

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

    from service.api.services import Services

ROUTE_KEY: Final = "kvquote.spared_route"
"""Where the environment says which route such an answer stands for."""

_KINDS: Final[Mapping[str, CatalogKind]] = {
    "models": CatalogKind.MODEL,
    "gpus": CatalogKind.GPU,
    "dtypes": CatalogKind.DTYPE,
    "engines": CatalogKind.ENGINE,
    "instances": CatalogKind.INSTANCE,
}
_ROUTES: Final = {kind: f"/{name}/<path:name>" for name, kind in _KINDS.items()}


def spared(application: "WSGIApplication", services: "Services") -> "WSGIApplication":
    """`application`, spared such requests; itself where each request is looked at for its token or its origin."""
    settings = services.settings
    if not settings.open_reads or settings.cors_origins:
        return application

    def answer(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        tag = environ.get("HTTP_IF_NONE_MATCH")
        kind = _kind(environ) if tag else None
        if tag is None or kind is None or tag != _present_tag(services, kind, environ["PATH_INFO"]):
            return application(environ, start_response)
        environ[ROUTE_KEY] = _ROUTES[kind]
        start_response("304 NOT MODIFIED", [("ETag", tag), ("Cache-Control", CACHE_CONTROL)])
        return ()

    return answer


def _kind(environ: "WSGIEnvironment") -> CatalogKind | None:
    """What kind of entry a plain GET is about; None for whatever else there is to look at."""
    if (
        environ["REQUEST_METHOD"] != "GET"
        or environ.get("QUERY_STRING")
        or environ.get("CONTENT_LENGTH")
        or "HTTP_TRANSFER_ENCODING" in environ
        or "HTTP_HOST" not in environ
        or environ.get("HTTP_ACCEPT", "") not in TAKES_JSON
    ):
        return None
    name = environ["PATH_INFO"].split("/", 2)
    return _KINDS.get(name[1]) if len(name) > 2 and name[2].isascii() else None  # noqa: PLR2004  # "", kind, name


def _present_tag(services: "Services", kind: CatalogKind, path: str) -> str | None:
    """The tag of the entry that the rest of the path names; None where none is at hand."""
    try:
        return entry_tag(services.keeper.current().stored(kind, path.split("/", 2)[2]))
    except QuoteError:
        return None
