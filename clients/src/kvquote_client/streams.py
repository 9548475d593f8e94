"""The streams of a program that somebody else started, closed or reads no more."""

import os
import sys
from contextlib import suppress
from pathlib import Path


def open_streams() -> None:
    """A stream that whoever started this has closed goes nowhere; a character that one cannot write becomes a `?`."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - as long as the process
        with suppress(AttributeError):
            getattr(sys, name).reconfigure(errors="replace")


def write_no_more() -> None:
    """What is left would be written as Python ends, with a complaint that it cannot be."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
