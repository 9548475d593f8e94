"""What is known of drafting, as dated data: which layers guess, what their passes cost, how many guesses are taken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class Accepted(NamedTuple):
    """Chance that a guess is taken where all before it were: in texts that are hard to guess, in most, in easy ones."""

    low: float
    middle: float
    high: float

    def tokens(self, guessed: int) -> tuple[float, float, float]:
        """Tokens that a step yields of a sequence: those taken of a chain of guesses, and the one that follows them."""
        low, middle, high = (sum(chance**length for length in range(guessed + 1)) for chance in self)
        return low, middle, high


class Method(NamedTuple):
    """A way to draft: by the checkpoint's `own` prediction layers, by `one` layer more, or by `none`.

    `head_rows` are the tokens that a drafter with a head of its own chooses from; `accepted` is None where that depends
    on the text alone.
    """

    layers: str
    head_rows: int | None
    accepted: Accepted | None


class Speculation(NamedTuple):
    """An engine's drafting: `verified_beside` are the tokens that a step verifies beside `speculative_tokens`.

    `pass_seconds` is what a pass of the drafter takes beside its layer; `spread` how far all passes may be off.
    """

    verified_beside: int
    pass_seconds: float
    spread: float
    methods: Mapping[str, Method]


def speculation(facts: Mapping[str, Any] | None) -> Speculation | None:
    """Read the block that engines with drafters have; None where a catalog is older than it."""
    if facts is None:
        return None
    methods = {name: _method(row) for row in facts["methods"] for name in row["names"]}
    return Speculation(facts["verified_beside"], float(facts["pass_seconds"]), facts["spread"], methods)


def _method(row: Mapping[str, Any]) -> Method:
    accepted = row.get("accepted")
    return Method(row["layers"], row.get("head_rows"), accepted and Accepted(**accepted))
