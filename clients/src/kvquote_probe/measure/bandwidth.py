"""`bandwidth`: bytes a second out of the device's memory: reading, copying, and gathering scattered pages.

Decoding reads: weights once a step, the cache once a sequence. Of several kernels that read, the fastest counts, since
a slow one says something of arithmetic. A copy's bytes are counted twice. Gathered pages are as large as a page of a
paged cache and each is read once, in random order.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from itertools import cycle
from typing import Any

from kvquote_probe.commands import MeasureError, Say
from kvquote_probe.measure.device import opened
from kvquote_probe.measure.setting import Bench, add_effort_arguments, effort_of, whole_number
from kvquote_probe.measure.timing import Effort, Timing, Watch, Work, interleaved
from kvquote_probe.readings import Reading

_PAST_CACHE = 20
"""The working set against the last-level cache: then what stays in the cache no longer shows (probe 3.3)."""

_LEAST_PAST_CACHE = 4
_LEAST_BYTES = 1 << 30
_MOST_OF_FREE = 0.4
_BUFFERS = 2
_PAGES_IN_BAG = 16
_ROW_ELEMENTS = 8192


def add_arguments(parser: ArgumentParser) -> None:
    """How large and how long."""
    add_effort_arguments(parser)
    parser.add_argument(
        "--working-set-bytes", type=whole_number, metavar="BYTES", help="20 times the last-level cache unless said"
    )
    parser.add_argument(
        "--page-bytes", type=whole_number, default=16384, metavar="BYTES", help="of a gathered page (%(default)s)"
    )


def plan(args: Namespace) -> list[str]:
    """What will be read."""
    size = f"{args.working_set_bytes:,} B" if args.working_set_bytes else "20 times the last-level cache"
    return [f"read, copy and gather {size} of {args.device}'s memory, {args.samples} times each"]


def measure(args: Namespace, say: Say, bench: Bench) -> Iterator[Reading]:
    """A row for each way of access."""
    size = args.working_set_bytes or _working_set(bench, args.fraction)
    cache = bench.facts["values"].get("last_level_cache_bytes") or 0
    if not bench.on_cpu and size < _LEAST_PAST_CACHE * cache:
        raise MeasureError(
            f"{size:,} B would be read from the cache of {cache:,} B; give a larger --working-set-bytes."
        )
    told = {"working_set_bytes": size, "page_bytes": args.page_bytes, "effort": effort_of(args)}
    call = "kvquote_probe.measure.bandwidth:stream"
    for row in bench.nursery.run(call, {**bench.arguments, **told}, say, args.seconds + 300):
        row["values"]["past_cache"] = size >= _PAST_CACHE * cache
        rate = row["values"]["bytes_per_second"] / 1e9
        say(f"{row['values']['access']}: {rate:,.1f} GB/s ({row['values']['kernel']})")
        yield bench.reading("memory_bandwidth", row["values"], samples=row["samples"])


def _working_set(bench: Bench, fraction: float) -> int:
    cache = bench.facts["values"].get("last_level_cache_bytes") or 0
    wanted = max(_LEAST_BYTES, _BUFFERS * _PAST_CACHE * cache)
    return int(min(wanted, _MOST_OF_FREE * bench.free_bytes, fraction * bench.total_bytes / 2))


def stream(arguments: Mapping[str, Any], say: Say) -> list[dict[str, Any]]:
    """The experiment: rows of the fastest kernel of each access."""
    import torch

    device = opened(arguments)
    watch = Watch(device, shared=bool(arguments.get("shared")))
    row = 4 * _ROW_ELEMENTS
    each = max(1, arguments["working_set_bytes"] // _BUFFERS // row) * row
    with torch.inference_mode():
        buffers = [torch.randn(each // 4, device=device.place) for _ in range(_BUFFERS)]
        works = {**_readers(buffers), **_copiers(buffers), **_gatherers(buffers, arguments["page_bytes"])}
        say(f"{len(works)} kernels over {_BUFFERS} buffers of {each:,} B")
        timings = interleaved(device, works, Effort(**arguments["effort"]))
    watched = watch.end()
    return [_row(access, timings, each, arguments["page_bytes"], watched) for access in ("read", "copy", "gather")]


def _readers(buffers: list[Any]) -> dict[tuple[str, str], Work]:
    """Each call reads the next buffer, so that none is read twice in a row."""
    import torch

    place, width = buffers[0].device, min(_ROW_ELEMENTS, buffers[0].numel())
    vectors = {torch.float32: torch.randn(width, device=place)}
    vectors[torch.bfloat16] = vectors[torch.float32].bfloat16()
    matrices = {kind: cycle([buffer.view(kind).view(-1, width) for buffer in buffers]) for kind in vectors}
    summed, highest = cycle(buffers), cycle(buffers)
    return {
        ("read", "mv_fp32"): lambda: torch.mv(next(matrices[torch.float32]), vectors[torch.float32]),
        ("read", "mv_bf16"): lambda: torch.mv(next(matrices[torch.bfloat16]), vectors[torch.bfloat16]),
        ("read", "sum_fp32"): lambda: next(summed).sum(),
        ("read", "max_fp32"): lambda: next(highest).amax(),
    }


def _copiers(buffers: list[Any]) -> dict[tuple[str, str], Work]:
    import torch

    target, source = torch.empty_like(buffers[0]), cycle(buffers)
    return {("copy", "copy"): lambda: target.copy_(next(source))}


def _gatherers(buffers: list[Any], page_bytes: int) -> dict[tuple[str, str], Work]:
    import torch

    elements = min(page_bytes // 4, buffers[0].numel())
    pages = buffers[0].numel() // elements
    tables = [buffer[: pages * elements].view(pages, elements) for buffer in buffers]
    orders = [torch.randperm(pages, device=table.device) for table in tables]
    bags = torch.arange(0, pages, _PAGES_IN_BAG, device=tables[0].device)
    both = cycle(list(zip(tables, orders, strict=True)))

    def gather() -> Any:  # noqa: ANN401  # a tensor that nobody reads
        table, order = next(both)
        return torch.nn.functional.embedding_bag(order, table, bags, mode="sum")

    return {("gather", "embedding_bag"): gather}


def _row(
    access: str, timings: Mapping[tuple[str, str], Timing], each: int, page_bytes: int, watched: Mapping[str, Any]
) -> dict[str, Any]:
    found = {kernel: timing for (way, kernel), timing in timings.items() if way == access}
    kernel = min(found, key=lambda name: found[name].seconds)
    moved = each * (2 if access == "copy" else 1)
    values = {
        "bytes_per_second": moved / found[kernel].seconds,
        "access": access,
        "working_set_bytes": each * _BUFFERS,
        "kernel": kernel,
        "kernels": {name: moved / timing.seconds for name, timing in found.items()},
        "page_bytes": page_bytes if access == "gather" else None,
        **found[kernel].told(),
        **watched,
    }
    return {
        "values": {name: value for name, value in values.items() if value is not None},
        "samples": [moved / seconds for seconds in found[kernel].samples],
    }
