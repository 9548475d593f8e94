"""What a service learned from measurements, through the SDK: only to be read; uploads teach it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from kvquote_client.filters import AccuracyFilters, CalibrationFilters
    from kvquote_client.learning_answers import AccuracyRow, CalibrationRow
    from kvquote_client.pages import Pages
    from kvquote_client.transport import Transport


class Calibrations:
    """`/calibrations`."""

    path = "/calibrations"

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, **filters: Unpack[CalibrationFilters]) -> Pages[CalibrationRow]:
        """What was learned, on every rung, also what quotes do not use and why.

        With `history=True` what was known before, too: `known_until` says until when.
        """
        from kvquote_client.learning_answers import CalibrationRow
        from kvquote_client.pages import Pages

        return Pages(self._transport, self.path, filters, CalibrationRow)


class Accuracy:
    """`/accuracy`."""

    path = "/accuracy"

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, **filters: Unpack[AccuracyFilters]) -> Pages[AccuracyRow]:
        """How quotes fared beside what was measured later, by family, GPU, engine, release and figure."""
        from kvquote_client.learning_answers import AccuracyRow
        from kvquote_client.pages import Pages

        return Pages(self._transport, self.path, filters, AccuracyRow)
