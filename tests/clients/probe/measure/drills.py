"""Experiments for tests of the nursery: they need no torch."""

import os
import signal
import time
from collections.abc import Callable, Mapping
from typing import Any

from kvquote_probe.commands import MeasureError

Arguments = Mapping[str, Any]
Say = Callable[[str], None]


def tell(arguments: Arguments, say: Say) -> dict[str, Any]:
    say("begun")
    return {"process": os.getpid(), **arguments}


def long_answer(arguments: Arguments, _: Say) -> str:
    return "x" * int(arguments["characters"])


def refuse(_: Arguments, __: Say) -> None:
    raise MeasureError("Give it another card.")


def fail(_: Arguments, __: Say) -> None:
    raise ZeroDivisionError


def die(_: Arguments, __: Say) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def linger(_: Arguments, say: Say) -> None:
    say(str(os.getpid()))
    time.sleep(600)


def gathered_share(arguments: Arguments, _: Say) -> float:
    """What gathering all pages of a buffer sums up to, against the buffer's own sum."""
    import torch

    from kvquote_probe.measure.bandwidth import _gatherers

    buffer = torch.rand(arguments["elements"]) + 1
    (gather,) = _gatherers([buffer], arguments["page_bytes"]).values()
    return float(gather().double().sum() / buffer.double().sum())
