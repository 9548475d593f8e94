"""The memory bar: the ledger of the GPU that fills first, as one line and as a list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvquote_client.cli.figures import share, size
from kvquote_client.cli.screen import Part

if TYPE_CHECKING:
    from kvquote_client.answers import Ledger, LedgerPart
    from kvquote_client.cli.screen import Screen

# A part's family is what stands before the dot. Later releases may name others.
_LOOKS: Final = {
    "weights": ("█", 34),
    "kv_cache": ("▓", 32),
    "reserve": ("▒", 33),
    "outside_budget": ("░", 35),
    "others": ("▚", 31),
    "unused": ("·", 90),
}
_OTHER_LOOK: Final = ("▚", 36)


def drawn(ledger: Ledger, screen: Screen, device: str = "") -> list[str]:
    """The bar and a line for each part of it that takes something; `device` is whose memory it is among several."""
    parts = [part for part in ledger.parts if part.bytes]
    total = sum(part.bytes for part in parts)
    names = max((len(screen.text(part.name)) for part in parts), default=0)
    lines = [screen.bar([Part(part.bytes, *_look(part)) for part in parts]), ""]
    for part in parts:
        glyph, colour = _look(part)
        mark = screen.painted(screen.text(glyph), colour)
        name = screen.text(part.name).ljust(names)
        lines.append(f"{mark} {name}  {size(part.bytes):>11}  {share(part.bytes, total):>7}")
    lines.append(f"  {'together'.ljust(names)}  {size(total):>11}  {_against(ledger)}{device and f' on {device}'}")
    return lines


def _against(ledger: Ledger) -> str:
    if not ledger.overcommitted_bytes:
        return "all there is"
    return f"{size(ledger.overcommitted_bytes)} more than the {size(ledger.memory_bytes)} there are"


def _look(part: LedgerPart) -> tuple[str, int]:
    return _LOOKS.get(part.name.partition(".")[0], _OTHER_LOOK)
