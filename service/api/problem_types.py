"""Every kind of problem the service answers with: one table, which `GET /problems/{name}` reads out."""

from typing import NamedTuple

from service.domain import errors


class ProblemType(NamedTuple):
    """One kind of problem. `name` is permanent: clients compare it."""

    name: str
    status: int
    title: str
    meaning: str
    way_out: str

    @property
    def uri(self) -> str:
        """The relative URI that stands in a problem's `type`, and that GET explains."""
        return f"/problems/{self.name}"


def _refusal(error: type[errors.QuoteError], meaning: str, way_out: str, status: int = 422) -> ProblemType:
    return ProblemType(error.code, status, error.title, meaning, way_out)


_REQUEST = (
    ProblemType(
        "malformed-request",
        400,
        "The request breaks HTTP",
        "A framing rule of HTTP is broken: a missing Host header, a broken chunk, a body shorter than announced.",
        "Send it with a stock HTTP library, without a rewriting proxy.",
    ),
    ProblemType(
        "malformed-json",
        400,
        "The body is not JSON",
        "The body does not follow RFC 8259: UTF-8 without a byte order "
        "mark, no NaN or Infinity, no comments, no trailing commas.",
        "detail gives the place; run the body through a JSON checker.",
    ),
    ProblemType(
        "malformed-query",
        400,
        "The query string is not UTF-8",
        "A percent-escape in the query string does not decode to UTF-8.",
        "Escape the values as UTF-8.",
    ),
    ProblemType(
        "duplicate-key",
        400,
        "A name is given twice",
        "An object of the body, or the query string, gives one name twice; which one was meant cannot be known.",
        "Give each name once; in a query string a list is one name with commas.",
    ),
    ProblemType(
        "too-deep",
        400,
        "The body is nested too deeply",
        "Objects and lists stand inside each other more levels deep than the service reads.",
        "Send the published config.json as it is; nothing else in a question is deep.",
    ),
    ProblemType(
        "token-required",
        401,
        "This needs a token",
        "Who writes says who they are; the request has no Authorization header.",
        "Send Authorization: Bearer with a token from kvquote-server token create.",
    ),
    ProblemType(
        "invalid-token",
        401,
        "The token is not valid",
        "The Authorization header holds no token of this service, or one that is expired or revoked.",
        "Have a new one made with kvquote-server token create.",
    ),
    ProblemType(
        "missing-scope",
        403,
        "The token may not do this",
        "The token is valid, but was made for other things; detail names the scope that this needs.",
        "Use a token with that scope.",
    ),
    ProblemType(
        "not-found",
        404,
        "Nothing is here",
        "No resource has this path. Paths never end in a slash.",
        "GET /openapi.json lists every path.",
    ),
    ProblemType(
        "method-not-allowed",
        405,
        "The path does not take this method",
        "The resource exists, and answers other methods.",
        "The Allow header lists them.",
    ),
    ProblemType(
        "not-acceptable",
        406,
        "The answer is not available in that format",
        "The Accept header leaves out application/json.",
        "Accept application/json, or leave the header away.",
    ),
    ProblemType(
        "name-taken",
        409,
        "Another entry has this name",
        "An id, alias or hub id leads to one entry of its kind, and this one leads to another already.",
        "errors names both; drop the alias here, or from the other entry first.",
    ),
    ProblemType(
        "measured-fact",
        409,
        "A measured fact would be lost",
        "The change replaces, drops or relabels a fact that was measured by one that was typed in.",
        "Keep what errors names, or say that it is meant: ?overwrite_measured=true.",
    ),
    ProblemType(
        "entry-in-use",
        409,
        "Other entries name this one",
        "Deleting the entry would leave others that refer to it without what they refer to.",
        "Change or delete those that detail names first.",
    ),
    ProblemType(
        "measurement-conflict",
        409,
        "Another measurement has this id",
        "A row with this id is stored and says something else; the first one stays.",
        "Give a new measurement a new id; a repeat has to be the same row.",
    ),
    ProblemType(
        "length-required",
        411,
        "The length of the body is not known",
        "A request with a body gives Content-Length or sends chunks.",
        "Send Content-Length.",
    ),
    ProblemType(
        "precondition-failed",
        412,
        "The entry is not what you think it is",
        "The entry has changed since its ETag was read, is there where none was expected, or is gone.",
        "Read it again, look at what changed, and send the change with the new ETag.",
    ),
    ProblemType(
        "too-large",
        413,
        "The body is too large",
        "The body is longer than this service's limit, or holds more rows; detail states the limit.",
        "Leave out what the question does not need; a config needs none of its tokenizer.",
    ),
    ProblemType(
        "uri-too-long",
        414,
        "The address is too long",
        "The request line is longer than the server reads, which is 8,190 bytes.",
        "Send the same question as JSON in a POST.",
    ),
    ProblemType(
        "headers-too-large",
        431,
        "The headers are too large",
        "A header is longer than the server reads, or there are more than 100 of them.",
        "Send fewer cookies and forwarded headers.",
    ),
    ProblemType(
        "unsupported-media-type",
        415,
        "The body is of a type that is not read here",
        "Bodies are application/json in UTF-8, not compressed; types that end in +json are not taken for it. "
        "Uploads of measurements may be application/x-ndjson as well, and gzip; logs text/plain.",
        "detail names the types that are read here: for a question, application/json and no Content-Encoding.",
    ),
    ProblemType(
        "upload-budget",
        429,
        "The token sent too much",
        "The token has sent as many rows or bytes as it may in a minute; nothing of this upload was stored.",
        "Send it again after Retry-After; larger uploads cost less than many small ones.",
    ),
    ProblemType(
        "precondition-required",
        428,
        "Say which state you change",
        "A write without a condition would overwrite what others wrote meanwhile.",
        "Send If-Match with the ETag of the entry as you read it, or If-None-Match: * to create one.",
    ),
    ProblemType(
        "http-error",
        400,
        "The request was refused",
        "A rule of HTTP without a page of its own; the status says which.",
        "detail says what to change.",
    ),
)

_QUESTION = (
    _refusal(
        errors.ValidationError,
        "A name is unknown, or a value has the wrong type, leaves its range or contradicts another.",
        "errors lists each fault with a JSON pointer, and the nearest known names.",
    ),
    _refusal(
        errors.UnknownModel,
        "No model of the catalog has this slug, hub id or alias. Where the path names it, the status is 404.",
        "Take one of nearest, or send the model's published config.json as config.",
    ),
    _refusal(
        errors.UnknownGpu,
        "No GPU of the catalog has this slug or alias. Where the path names it, the status is 404.",
        "Take one of nearest, or leave gpu away and give memory_bytes.",
    ),
    _refusal(
        errors.NotSupported,
        "The name is part of the contract, but has no meaning for this engine or in this "
        "release. Ignoring it would quote something else than was asked.",
        "Leave the name away, or choose an engine that has it.",
    ),
    _refusal(
        errors.UnknownArchitecture,
        "No reader knows the model type of this config. Taking it for plain attention would be a guess.",
        "Send assume=decoder if it is a standard decoder.",
    ),
    _refusal(
        errors.ConfigError,
        "The config lacks a field that its model type needs, or contradicts itself.",
        "Send the published file unchanged; errors names the fields.",
    ),
    _refusal(
        errors.CatalogFactError,
        "A catalog entry cannot be turned into what it describes.",
        "errors names the entry and the fact; correct it and load the catalog again.",
    ),
)

_SERVER = (
    _refusal(
        errors.CatalogUnavailable,
        "No catalog was loaded in this process yet, or its database is away.",
        "Ask again after Retry-After; GET /readyz says what is missing.",
        503,
    ),
    ProblemType(
        "database-unavailable",
        503,
        "The database does not answer",
        "The answer needs the database, and it is away, locked or not migrated.",
        "Ask again after Retry-After; GET /readyz says what is missing.",
    ),
    ProblemType(
        "internal-error",
        500,
        "The service failed",
        "A fault of the service, not of the request.",
        "Report request_id: the log holds what happened under it.",
    ),
)

PROBLEM_TYPES: dict[str, ProblemType] = {kind.name: kind for kind in (*_REQUEST, *_QUESTION, *_SERVER)}

_BY_STATUS = {
    404: "not-found",
    405: "method-not-allowed",
    406: "not-acceptable",
    411: "length-required",
    413: "too-large",
    414: "uri-too-long",
    415: "unsupported-media-type",
    431: "headers-too-large",
    500: "internal-error",
}


def for_status(status: int) -> ProblemType:
    """The kind that a bare HTTP status stands for."""
    return PROBLEM_TYPES[_BY_STATUS.get(status, "http-error")]
