"""Reading a query string: UTF-8, each name once."""

from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from service.api import limits
from service.api.problems import ProblemError

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment


def read_query(environ: "WSGIEnvironment") -> dict[str, str]:
    """The names of the query string with their texts; raises ProblemError.

    werkzeug's own args replace what is not UTF-8 and keep the first of two equal names, so that a question would be
    answered that nobody asked.
    """
    query = environ.get("QUERY_STRING", "")
    if not query:
        return {}
    try:
        # WSGI hands bytes over as latin-1; those beyond ASCII are UTF-8 that the client did not escape.
        text = query if query.isascii() else query.encode("latin-1").decode()
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict")
    except UnicodeError:
        raise ProblemError("malformed-query", "The query string is not UTF-8 once unescaped.") from None
    given = dict(pairs)
    if len(given) < len(pairs):
        _refuse_repeated([name for name, _ in pairs])
    return given


def _refuse_repeated(names: list[str]) -> None:
    twice = next(name for name in names if names.count(name) > 1)[: limits.POINTER_CHARACTERS]
    raise ProblemError("duplicate-key", f"{twice!r} is given twice; a list is one name with commas.")
