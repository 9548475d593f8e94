"""Names that cards of several sizes share, such as `RTX 3080`: the memory beside one tells which card it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from service.domain.errors import Fault, UnknownGpu
from service.domain.units import GIB

if TYPE_CHECKING:
    from service.domain.gpu import Gpu
    from service.domain.question import Catalog

_GB: Final = 10**9
_ALIKE: Final = 0.03
"""How far a memory may be from a card's, as a fraction; sizes that share a name differ by a sixth and more."""


def card_named(
    name: str, catalog: Catalog, pointer: str = "/gpu", memory_bytes: int | None = None
) -> tuple[Gpu, str | None]:
    """The card of a name, and what to say where the memory told it; raises UnknownGpu naming those that share it."""
    try:
        return catalog.gpu(name, pointer), None
    except UnknownGpu:
        shared = catalog.sized_gpus(name)
        found = [] if memory_bytes is None else _having(memory_bytes, shared)
        if len(found) == 1:
            return found[0], f"{name!r} is taken for {found[0].name}, which has the {memory_bytes:,} bytes of memory"
        if len(shared) < 2:  # noqa: PLR2004  # nobody to share it with
            raise
    known = "" if memory_bytes is None else f", and {memory_bytes:,} bytes are no one's of them alone"
    detail = f"{name!r} is the name of {len(shared)} cards{known}: give the size too, or the memory of the card."
    raise UnknownGpu(Fault(pointer, detail, tuple(card.id for card in shared)))


def _having(memory_bytes: int, cards: tuple[Gpu, ...]) -> list[Gpu]:
    """The cards that have a memory: as a process sees it, as the driver counts it, or as the box says.

    Where none has it so, what the box calls GB are GiB: a system whose memory the device shares counts all of it.
    """
    found = [
        card
        for card in cards
        if _alike(memory_bytes, card.visible_bytes, card.driver_total_bytes, card.advertised_bytes)
    ]
    return found or [card for card in cards if _alike(memory_bytes, card.advertised_bytes * GIB // _GB)]


def _alike(memory_bytes: int, *sizes: int | None) -> bool:
    return any(size and abs(memory_bytes - size) <= _ALIKE * size for size in sizes)
