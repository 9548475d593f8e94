"""What the catalog says of captured graphs: what they take, which sizes are captured, and who subtracts them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from service.domain.spans import GRAPH_MODES

if TYPE_CHECKING:
    from collections.abc import Mapping

NO_GRAPHS, PIECES, WHOLE, STEPS, PIECES_AND_STEPS = GRAPH_MODES


class GraphBytes(NamedTuple):
    """Bytes that kernels allocate in the first graph, and that each further size takes a layer, in pieces and whole."""

    first: int
    pieces: int
    whole: int


@dataclass(frozen=True, slots=True)
class GraphsRule:
    """Whether graphs are subtracted, and the largest captured size in tokens; data-centre Blackwell's may be larger.

    Steps that are not compiled have whole graphs alone where those are `kept_without_pieces`, else none.
    """

    subtracted: bool
    most: int
    most_on_data_centre_blackwell: int
    kept_without_pieces: bool = False


@dataclass(frozen=True, slots=True)
class GraphRule:
    """What captured graphs take, piecewise ones and those of a whole decode step, and the sizes that are captured.

    Devices of `splits_capability` keep `splits` partial results of attention in graphs of up to `splits_most` tokens.
    `low` and `high` are the ends of the estimate as multiples of it. Sizes in tokens are `first`, then every `step`
    below `wide_from`, then every `wide_step`.
    """

    dense: GraphBytes
    experts: GraphBytes
    by_expert_format: dict[str, GraphBytes]
    splits: int
    splits_capability: float
    splits_most: int
    low: float
    high: float
    first: tuple[int, ...]
    step: int
    wide_from: int
    wide_step: int

    def bytes_of(self, format_name: str, *, experts: bool) -> GraphBytes:
        """What graphs take whose weights are of that format."""
        return self.by_expert_format.get(format_name, self.experts) if experts else self.dense

    def sizes(self, most: int) -> list[int]:
        """The batch sizes that are captured where none may be larger."""
        small = [size for size in self.first if size <= most]
        dense = range(self.step, min(most + 1, self.wide_from), self.step)
        return [*small, *dense, *range(self.wide_from, most + 1, self.wide_step)]


def read_graph(facts: Mapping[str, Any]) -> GraphRule:
    """What graphs take, as the catalog has it; raises KeyError or TypeError where a figure is missing."""
    sizes, splits = facts["sizes"], facts["splits"]
    return GraphRule(
        dense=GraphBytes(**facts["dense"]),
        experts=GraphBytes(**facts["experts"]),
        by_expert_format={name: GraphBytes(**row) for name, row in facts["by_expert_format"].items()},
        splits=splits["most"],
        splits_capability=float(splits["capability"]),
        splits_most=splits["size"],
        low=facts["low"],
        high=facts["high"],
        first=tuple(sizes["first"]),
        step=sizes["step"],
        wide_from=sizes["from"],
        wide_step=sizes["wide_step"],
    )
