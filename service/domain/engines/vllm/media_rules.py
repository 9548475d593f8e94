"""What the catalog knows of pictures, films and sounds: their tokens by family, and whose encoders go where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from service.domain.engines.dated import dated, newest
from service.domain.units import whole

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.domain.engines.dated import Dated
    from service.domain.engines.versions import Release

GIVE_BUDGET = "give encoder_budget_tokens, the budget that logs print for the encoder cache"
"""The way out of every refusal of what cannot be told of encoders."""
MODALITIES: Final = ("image", "video", "audio", "vision_chunk")
"""What models of vLLM's may take beside text (get_supported_mm_limits of model_executor/models, 0.9.2 to 0.33.0)."""


class Item(NamedTuple):
    """Tokens of a modality's largest item: as many times `tokens` as the longest sequence holds, `most` at most.

    `tokens` is None where nobody has worked them out. `of_picture` is their share of the tokens of the largest picture
    where those are asked for, 0 where they do not follow from it.
    """

    tokens: int | None = None
    most: int = 1
    of_picture: float = 0.0

    def size(self, limit_tokens: int, picture_tokens: int | None = None) -> int | None:
        """The tokens for a start of that longest sequence; `picture_tokens` are asked for in place of the family's."""
        asked = picture_tokens and whole(picture_tokens * self.of_picture)
        tokens = asked or self.tokens
        return tokens and tokens * max(1, min(self.most, limit_tokens // tokens))


@dataclass(frozen=True, slots=True)
class Family:
    """The items of a family by modality.

    A token is of `pixels` x `pixels` where pictures have any size, 0 where that is not known; `fixed` where every
    picture is brought to one size.
    """

    items: Mapping[str, Item]
    pixels: int = 0
    fixed: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class MediaRule:
    """Families by their model_type, and those whose encoder may stand whole on every rank, None where nobody knows.

    `least_tokens` are those of the smallest item that any family has.
    """

    families: Mapping[str, Family]
    whole: frozenset[str] | None
    least_tokens: int


@dataclass(frozen=True, slots=True)
class TowersRule:
    """Whose encoders are not loaded where none of their items is ever taken: of `named` families, or of all others.

    `apart`: one encoder of several is left out without the others.
    """

    left_out: bool
    named: tuple[str, ...] = ()
    not_named: tuple[str, ...] = ()
    apart: bool = False

    def leaves_out(self, model_type: str) -> bool:
        """Whether the release leaves the encoders of that family out."""
        return self.left_out and model_type not in self.not_named and (not self.named or model_type in self.named)


class MediaTopics(NamedTuple):
    """Families row by row, oldest first, and whose encoders may stand whole."""

    families: Dated[tuple[tuple[str, ...], Family]]
    whole: Dated[frozenset[str] | None]
    least_tokens: int

    def rule(self, release: Release) -> MediaRule:
        """What holds for a release: of each family its newest row."""
        held = [row for since, row in self.families if since <= release]
        families = {name: family for names, family in held for name in names}
        return MediaRule(families, newest(self.whole, release), self.least_tokens)


def topics_of(facts: Mapping[str, Any]) -> MediaTopics:
    """The topic as the catalog has it."""
    return MediaTopics(
        dated(facts["families"], lambda row: (tuple(row["model_types"]), _family(row))),
        dated(facts["whole"], lambda row: frozenset(row["model_types"]) if row["known"] else None),
        facts["smallest"]["tokens"],
    )


def towers_of(row: Mapping[str, Any]) -> TowersRule:
    """Whose encoders are left out, as a row has it."""
    named, others = tuple(row.get("named", ())), tuple(row.get("not_named", ()))
    return TowersRule(row["left_out"], named, others, row.get("apart", False))


def _family(row: Mapping[str, Any]) -> Family:
    items = {
        name: Item(each["tokens"], each.get("most", 1), each.get("of_picture", 0))
        for name, each in row["items"].items()
    }
    return Family(items, row.get("pixels", 0), row.get("fixed", False))
