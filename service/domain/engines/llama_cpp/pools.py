"""Cells of a device's cache: shared by all slots, or a stream of its own for each (accounting 4.1)."""

from __future__ import annotations

from dataclasses import dataclass

from service.domain.engines.ranks.pool import Pool
from service.domain.units import down, up

_MOST = 1 << 40


@dataclass(frozen=True, slots=True)
class Layout:
    """How slots share cells: `pad` and `window_pad` are what lengths are rounded up to, `pass_tokens` one pass."""

    slots: int
    unified: bool
    pad: int
    window_pad: int
    pass_tokens: int


@dataclass(frozen=True, slots=True)
class CellPool(Pool):
    """Bytes of a cell in full layers and in each width of window, and of a slot's recurrent state.

    States of the slots that the engine is started with are no part of it, those of further slots are. A pool of the
    question's own size (`exact`) holds keys and values alone and is not rounded.
    """

    full_bytes: int
    windows: tuple[tuple[int, int], ...]
    state_bytes: int
    layout: Layout
    exact: bool

    @property
    def groups(self) -> int | None:  # type: ignore[override]  # follows from what the model keeps
        """Two caches where windows have their own."""
        return 2 if self.full_bytes and self.windows else 1

    def needed(self, sequences: int, context_tokens: int) -> int:
        """Keys and values of so many sequences, and states of slots beyond those that are there."""
        layout = self.layout
        if layout.unified:
            size = self._cells(self._up(sequences * context_tokens), max(sequences, layout.slots))
        else:
            size = sequences * self._cells(self._up(context_tokens), 1)
        return size if self.exact else size + max(0, sequences - layout.slots) * self.state_bytes

    def _up(self, cells: int) -> int:
        return cells if self.exact else up(cells, self.layout.pad)

    def _cells(self, cells: int, slots: int) -> int:
        """Bytes of one buffer of so many cells that so many slots share."""
        layout, size = self.layout, cells * self.full_bytes
        for window, cell_bytes in self.windows:
            kept = min(cells, window * slots + layout.pass_tokens)
            size += cell_bytes * (kept if kept == cells else up(kept, layout.window_pad))
        return size

    def sequences(self, pool_bytes: int, context_tokens: int) -> int:
        """The most whose needs the pool covers."""
        if self.needed(1, context_tokens) > pool_bytes:
            return 0
        if not self.windows and not self.state_bytes:
            return self._plainly(pool_bytes, context_tokens)
        low, high = 1, 2
        while high < _MOST and self.needed(high, context_tokens) <= pool_bytes:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.needed(middle, context_tokens) <= pool_bytes else (low, middle)
        return low

    def _plainly(self, pool_bytes: int, context_tokens: int) -> int:
        """The same where a sequence is nothing but its cells."""
        if not self.full_bytes:
            return _MOST
        if not self.layout.unified:
            return pool_bytes // (self._up(context_tokens) * self.full_bytes)
        cells = pool_bytes // self.full_bytes
        return (cells if self.exact else down(cells, self.layout.pad)) // context_tokens

    def concurrency(self, pool_bytes: int, limit_tokens: int) -> float:
        """Whole sequences, and the share of one more that is left."""
        found = self.sequences(pool_bytes, limit_tokens)
        taken = self.needed(found, limit_tokens) if found else 0
        more = self.needed(found + 1, limit_tokens) - taken
        return found + (pool_bytes - taken) / more if more else float(found)

    def tokens(self, pool_bytes: int) -> int:
        """Cells of all slots together, the most that fit."""
        step = 1 if self.exact else self.layout.pad
        streams = 1 if self.layout.unified else self.layout.slots
        slots = self.layout.slots if self.layout.unified else 1
        if self.full_bytes and not self.windows:
            return streams * down(pool_bytes // (streams * self.full_bytes), step)
        low, high = 0, 1
        while high < _MOST and streams * self._cells(high * step, slots) <= pool_bytes:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            fits = streams * self._cells(middle * step, slots) <= pool_bytes
            low, high = (middle, high) if fits else (low, middle)
        return streams * low * step

    def limit_needed(self, limit_tokens: int) -> int:
        """The longest sequence, in every stream where slots have streams of their own."""
        return self.needed(1 if self.layout.unified else self.layout.slots, limit_tokens)

    def allocated(self, pool_bytes: int) -> int:
        """All cells that fit."""
        streams = 1 if self.layout.unified else self.layout.slots
        slots = self.layout.slots if self.layout.unified else 1
        return streams * self._cells(self.tokens(pool_bytes) // streams, slots)

    def longest(self, pool_bytes: int, at_most: int) -> int | None:
        """The longest single sequence; None where length takes no more."""
        if self.needed(1, at_most) <= pool_bytes:
            return None
        low, high = 0, at_most
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.needed(1, middle) <= pool_bytes else (low, middle)
        return low
