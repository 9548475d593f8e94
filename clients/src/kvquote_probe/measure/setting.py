"""What all measurements of one run share: the device, how much of it may be used, the service, and the nursery."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from kvquote_probe.commands import MeasureError, Say
from kvquote_probe.measure.asking import HttpService, Service
from kvquote_probe.measure.nursery import Nursery, nursery
from kvquote_probe.readings import Reading

_LOOK = "kvquote_probe.measure.look:look"
DEFAULT_FRACTION = 0.9
_SET_SHARE = 0.15
_DIGITS = 15
_LONGEST_SECONDS = 86400.0


def add_device_arguments(parser: ArgumentParser) -> None:
    """Which device, how much of it, and whether others may be on it."""
    parser.add_argument("--device", default="auto", metavar="PLACE", help="cuda:0, cuda:1, ... (also on ROCm) or cpu")
    parser.add_argument(
        "--fraction", "--memory-fraction", type=share, default=DEFAULT_FRACTION, metavar="SHARE",
        help="share of the device's memory that is never passed (%(default)s)",
    )  # fmt: skip
    parser.add_argument("--shared", action="store_true", help="measure although others use the device")
    parser.add_argument(
        "--limit-bytes", type=whole_number, metavar="BYTES", help="on the CPU: memory that there is to be"
    )


def add_effort_arguments(parser: ArgumentParser) -> None:
    """How often, and for how long at most."""
    parser.add_argument("--samples", type=whole_number, default=30, metavar="N", help="timings of each (%(default)s)")
    parser.add_argument("--warm-up", type=seconds, default=0.5, metavar="SECONDS", help="before them (%(default)s)")
    parser.add_argument("--seconds", type=seconds, default=60.0, metavar="SECONDS", help="at most, a set (%(default)s)")


def effort_of(args: Namespace) -> dict[str, float]:
    """The same for an experiment; of a command's whole time a set takes a part, since there are several."""
    budget = getattr(args, "budget", None)
    limit = args.seconds if budget is None else min(args.seconds, budget * _SET_SHARE)
    return {"samples": args.samples, "warm_up_seconds": args.warm_up, "seconds": limit}


def whole_number(text: str) -> int:
    """A whole number above 0 that a machine may have so many of."""
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS and int(text)):
        raise ArgumentTypeError(f"{text!r} is no whole number above 0")
    return int(text)


def whole_numbers(text: str) -> list[int]:
    """Whole numbers above 0, separated by commas."""
    try:
        return [whole_number(part) for part in text.split(",")]
    except ArgumentTypeError:
        raise ArgumentTypeError(f"{text!r} is no list of whole numbers such as 1,8,32") from None


def _number(text: str) -> float:
    """What a text says; what is no number is outside every range."""
    try:
        return float(text)
    except ValueError:
        return float("nan")


def seconds(text: str) -> float:
    """A time from 0 to a day."""
    number = _number(text)
    if not 0 <= number <= _LONGEST_SECONDS:
        raise ArgumentTypeError(f"{text!r} is no number of seconds up to a day")
    return number


def amount(text: str) -> float:
    """A number from 0 on."""
    number = _number(text)
    if not 0 <= number < float("inf"):
        raise ArgumentTypeError(f"{text!r} is no number from 0 on")
    return number


def share(text: str) -> float:
    """A number above 0 and at most 1."""
    number = _number(text)
    if not 0 < number <= 1:
        raise ArgumentTypeError(f"{text!r} is no share: above 0 and at most 1")
    return number


@dataclass
class Bench:
    """Where experiments are made."""

    nursery: Nursery
    arguments: Mapping[str, Any]
    """What every experiment is told: `device`, `limit_bytes`, `shared`, `fraction`."""
    say: Say
    url: str | None = None
    token: str | None = None
    given_service: Service | None = None

    @cached_property
    def facts(self) -> dict[str, Any]:
        """What `device` found, looked up once."""
        found: dict[str, Any] = self.nursery.run(_LOOK, self.arguments, self.say, timeout_seconds=300)
        self.say(f"measuring on {found['gpu']['name']} with torch {found['software']['torch']}")
        return found

    @cached_property
    def service(self) -> Service:
        """Who is asked for normal forms and quotes."""
        if self.given_service is not None:
            return self.given_service
        if not self.url:
            raise MeasureError("This measurement asks the service for shapes and quotes: give its address with --url.")
        return HttpService(self.url, self.token)

    @property
    def free_bytes(self) -> int:
        """Free when the run began."""
        return int(self.facts["values"]["free_bytes"])

    @property
    def total_bytes(self) -> int:
        """Of the device, as processes see it."""
        return int(self.facts["values"]["total_bytes"])

    @property
    def on_cpu(self) -> bool:
        """Whether there is no GPU in this."""
        return bool(self.facts["kind"] == "cpu")

    def reading(
        self,
        kind: str,
        values: Mapping[str, Any],
        setup: Mapping[str, Any] | None = None,
        samples: Sequence[float] = (),
    ) -> Reading:
        """A reading of this device; values that are None are left out."""
        told = {name: value for name, value in values.items() if value is not None}
        return Reading(kind, told, setup, tuple(samples), self.facts["gpu"], self.facts["software"])


@contextmanager
def bench_for(args: Namespace, say: Say) -> Iterator[Bench]:
    """The bench of a command's arguments; every process of it is gone afterwards."""
    arguments = {
        "device": args.device,
        "limit_bytes": args.limit_bytes,
        "shared": args.shared,
        "fraction": args.fraction,
    }
    with nursery() as made:
        yield Bench(made, arguments, say, getattr(args, "url", None), getattr(args, "token", None))
