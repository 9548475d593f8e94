"""`allreduce`: how long a sum over all ranks takes, by size: NCCL or RCCL between cards, Gloo between processes.

A tensor-parallel layer makes two such sums. Small ones are latency, large ones the link; the bus rate counts what each
link really carries, algorithm rate x 2(n-1)/n (probe 3.5).
"""

from __future__ import annotations

import os
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from typing import Any

from kvquote_probe.commands import MeasureError, Say
from kvquote_probe.measure.device import opened
from kvquote_probe.measure.setting import Bench, add_effort_arguments, effort_of, whole_number, whole_numbers
from kvquote_probe.measure.timing import Timing, Watch
from kvquote_probe.readings import Reading

_SIZES = tuple(1 << power for power in range(13, 29, 3))
"""8 KiB, a small batch's hidden states, to 256 MiB, a long prompt's."""

_IN_A_ROW, _SMALL_BYTES = 10, 4 << 20
"""Small sums are timed in a row, so that the next is launched while one runs; engines hide launches in graphs."""

_LEAST_RANKS = 2


def add_arguments(parser: ArgumentParser) -> None:
    """How many ranks, and which sizes."""
    add_effort_arguments(parser)
    parser.add_argument("--ranks", type=whole_number, metavar="N", help="all cards that torch sees; 2 on the CPU")
    parser.add_argument(
        "--sizes", type=whole_numbers, default=_SIZES, metavar="BYTES,...", help="bytes that each rank brings"
    )


def plan(args: Namespace) -> list[str]:
    """What will be summed."""
    return [f"sum {len(args.sizes)} sizes over {args.ranks or 'all'} ranks, {args.samples} times each"]


def measure(args: Namespace, say: Say, bench: Bench) -> Iterator[Reading]:
    """A row for each size."""
    cards_seen = None if bench.on_cpu else int(bench.nursery.run(f"{__name__}:cards", {}, say))
    ranks = args.ranks or cards_seen or _LEAST_RANKS
    if cards_seen is not None and ranks > cards_seen:
        # The others would wait for the one that has no card.
        raise MeasureError(f"{ranks} ranks need as many cards, and torch sees {cards_seen}.")
    if ranks < _LEAST_RANKS:
        raise MeasureError("A sum over ranks needs two of them, and torch sees one card here.")
    with tempfile.TemporaryDirectory(prefix="kvquote-probe-") as folder:
        told = {"meeting": f"file://{folder}/meeting", "ranks": ranks, "sizes": args.sizes, "effort": effort_of(args)}
        each = [{**bench.arguments, **told, "rank": rank} for rank in range(ranks)]
        found = bench.nursery.run_together(f"{__name__}:reduce", each, say, args.seconds + 300)
    for at, size in enumerate(args.sizes):
        # A sum is over when its last rank has it.
        timing = Timing(tuple(max(samples) for samples in zip(*(rank["samples"][at] for rank in found), strict=True)))
        bus = size / timing.seconds * 2 * (ranks - 1) / ranks
        say(f"{size:,} B over {ranks} ranks: {timing.seconds * 1e6:,.1f} us, {bus / 1e9:,.2f} GB/s on the bus")
        told = {"bytes": size, "ranks": ranks, "seconds": timing.seconds, "bus_bytes_per_second": bus, **timing.told()}
        values = {**told, "backend": found[0]["backend"], "graphs": False, **found[0]["watched"]}
        yield bench.reading("all_reduce", values, {"tensor_parallel": ranks}, timing.samples)


def cards(arguments: Mapping[str, Any], say: Say) -> int:  # noqa: ARG001  # as all experiments are called
    """The experiment: how many cards torch sees."""
    import torch

    return int(torch.cuda.device_count())


def reduce(arguments: Mapping[str, Any], say: Say) -> dict[str, Any]:  # noqa: ARG001  # as all experiments are called
    """The experiment of one rank: samples of every size."""
    import torch
    import torch.distributed as together

    on_cpu = arguments["device"] == "cpu" or not torch.cuda.is_available()
    device = opened({**arguments, "device": "cpu" if on_cpu else f"cuda:{arguments['rank']}"})
    watch = Watch(device, shared=bool(arguments.get("shared")))
    if on_cpu:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # host names of containers often lead nowhere
    backend = "gloo" if on_cpu else "nccl"
    together.init_process_group(
        backend,
        init_method=arguments["meeting"],
        rank=arguments["rank"],
        world_size=arguments["ranks"],
        device_id=None if on_cpu else torch.device(device.place),  # or a barrier guesses
    )
    try:
        samples = [_sum(device, together, size, arguments["effort"]["samples"]) for size in arguments["sizes"]]
        watched = watch.end()
    finally:
        together.destroy_process_group()
    return {"samples": samples, "backend": backend, "watched": watched}


def _sum(device: Any, together: Any, size: int, count: int) -> list[float]:  # noqa: ANN401  # torch's module
    import torch

    kind = torch.float32 if device.kind == "cpu" else torch.bfloat16
    message = torch.ones(max(1, size // kind.itemsize), device=device.place, dtype=kind)
    together.all_reduce(message)
    if not bool((message == together.get_world_size()).all()):
        raise MeasureError("A sum over ranks came out wrong: the link or a card is broken.")
    runs = _IN_A_ROW if size < _SMALL_BYTES else 1

    def several() -> None:
        for _ in range(runs):
            together.all_reduce(message)

    message.zero_()  # or sums of sums would overflow
    several()
    taken = []
    for _ in range(count):
        together.barrier()
        taken.append(device.seconds(several) / runs)
    return taken
