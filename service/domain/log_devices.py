"""Whose figures of a log a quote is compared with, where several devices hold the model and each holds its own part."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.domain.logs import LogReading, Rank, Said

PLACES_LAYERS = frozenset({"llama.cpp"})
"""Engines that put layers on devices as these come, so that no two hold the same; a quote is of the one that fills."""


def compared(
    reading: LogReading, quote: Mapping[str, Any] | None, *, as_the_log_has_them: bool
) -> tuple[Mapping[str, Said], tuple[str, ...]]:
    """What the quoted device says, beside what all do; and why it is nobody's where devices cannot be matched.

    `as_the_log_has_them` is whether the cards that are quoted are those of the log, in its order.
    """
    if quote is None or reading.engine not in PLACES_LAYERS or len(reading.ranks) < 2:  # noqa: PLR2004  # several
        return reading.said, ()
    quoted = quote["question"]["pipeline_parallel"]
    devices = _in_order(reading)
    if quoted != len(reading.ranks):
        why = f"the quote is of {quoted}; give gpu_count or gpus"
    elif not devices:
        why = "no line says in which order they were chosen, so which of them is quoted cannot be told"
    elif not as_the_log_has_them:
        why = "other cards are given than the log names, or in another order"
    else:
        return {**reading.said, **devices[quote["rank"]["index"]].said}, ()
    return reading.said, (f"The figures of the log's {len(reading.ranks)} devices were not compared: {why}.",)


def _in_order(reading: LogReading) -> list[Rank]:
    """The devices in the order in which the engine chose them, which it says beside the memory that was free."""
    chosen = [rank for rank in reading.ranks if "free_before_bytes" in rank.said]
    whole = len(chosen) == len(reading.ranks) == len(reading.devices)
    return sorted(chosen, key=lambda rank: rank.said["free_before_bytes"].line) if whole else []
