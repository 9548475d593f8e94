"""Who is asking: bearer tokens, and what each may do."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from flask import Flask, request

from service.api.problems import ProblemError
from service.api.services import services
from service.storage.tokens import Scope, Token

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

# Longer than any token: no header is worth hashing beyond it.
_LONGEST_CREDENTIALS = 200
_REALM = 'Bearer realm="kvquote"'
# The same for every reason, so that nobody learns which tokens there are.
_INVALID = "The token is not valid: it is unknown, expired or revoked."

OPEN_ALWAYS = frozenset({"health", "metrics", "openapi", "problems", "web"})
"""Resources that are read without a token even where reading is closed."""

TOKEN_SECURITY: list[Mapping[str, list[str]]] = [{"token": []}]
"""What an operation that needs a token says of it in the OpenAPI document."""


def authorised(scope: Scope) -> Token:
    """The token of this request, which may do what `scope` names.

    Raises ProblemError: 401 without a usable token, 403 with one that lacks the scope.
    """
    token = identified(request.environ)
    if scope not in token.scopes:
        detail = f"The token {token.id} may not do this: it needs the scope {scope}."
        challenge = f'{_REALM}, error="insufficient_scope", scope="{scope}"'
        raise ProblemError("missing-scope", detail, headers=[("WWW-Authenticate", challenge)])
    return token


def close_reads(app: Flask) -> None:
    """Ask for a token, whatever its scopes, before anything is answered but the resources of OPEN_ALWAYS."""

    def identify() -> None:
        if request.blueprint not in OPEN_ALWAYS and request.method != "OPTIONS":
            identified(request.environ)

    app.before_request(identify)


def identified(environ: "WSGIEnvironment") -> Token:
    """The usable token in the Authorization header; raises ProblemError (401) without one."""
    given = environ.get("HTTP_AUTHORIZATION")
    if given is None:
        detail = "This needs a token: send it as Authorization: Bearer kvq_…"
        raise ProblemError("token-required", detail, headers=[("WWW-Authenticate", _REALM)])
    scheme, _, text = given.partition(" ")
    fits = scheme.lower() == "bearer" and len(text) <= _LONGEST_CREDENTIALS
    token = services().tokens.find(text) if fits else None
    if token is None:
        challenge = f'{_REALM}, error="invalid_token"'
        raise ProblemError("invalid-token", _INVALID, headers=[("WWW-Authenticate", challenge)])
    return token
