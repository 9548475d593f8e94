"""If-Match and If-None-Match on writes: nobody changes or deletes what they have not seen (RFC 9110, 13)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from werkzeug.http import parse_etags

from service.api.problems import ProblemError

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

_LONGEST_HEADER = 8192
_ANY = "*"


@dataclass(frozen=True, slots=True)
class Precondition:
    """What must hold of the present entry: `if_match` is the header, `absent` that there must be none."""

    if_match: str | None
    absent: bool

    @classmethod
    def of(cls, environ: "WSGIEnvironment", *, may_create: bool) -> Self:
        """The condition that the request states; raises ProblemError (428) where it states none."""
        if_match = environ.get("HTTP_IF_MATCH")
        absent = may_create and environ.get("HTTP_IF_NONE_MATCH", "").strip() == _ANY
        if if_match is None and not absent:
            create = ", or If-None-Match: * to create one" if may_create else ""
            detail = f"Send If-Match with the ETag of the entry as you read it{create}."
            raise ProblemError("precondition-required", detail)
        return cls(if_match, absent)

    def check(self, tag: str | None) -> None:
        """Raise ProblemError (412) unless it holds of the present entry's tag, None where there is no entry."""
        if self.absent and tag is not None:
            raise ProblemError("precondition-failed", "The entry exists already; send If-Match to change it.")
        if self.if_match is not None and not self._matches(tag):
            there = "has changed since you read it" if tag else "does not exist; send If-None-Match: * to create it"
            raise ProblemError("precondition-failed", f"The entry {there}.")

    def _matches(self, tag: str | None) -> bool:
        """The strong comparison: a weak tag is none that a write may rest on."""
        if tag is None or self.if_match is None or len(self.if_match) > _LONGEST_HEADER:
            return False
        given = parse_etags(self.if_match)
        return given.star_tag or given.is_strong(tag.strip('"'))
