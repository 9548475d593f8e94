"""`kv`: allocates a model's cache at two sizes and asks the driver what each took; the slope is what a token costs.

A slope and not a ratio: what a process takes anyway falls out of it. What the allocator adds by rounding is told apart:
arithmetic, bytes asked for, bytes in blocks, bytes in segments, and the driver's own figure.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kvquote_probe.commands import MeasureError, Say
from kvquote_probe.measure.asking import (
    Service,
    add_model_arguments,
    asked_for,
    cache_formats,
    model_form,
    model_words,
    quoted,
)
from kvquote_probe.measure.cache import Part, allocated, parts
from kvquote_probe.measure.device import opened, refuse_if_used, touch
from kvquote_probe.measure.form import ModelForm
from kvquote_probe.measure.setting import Bench, whole_number
from kvquote_probe.readings import Reading

_SHARE_OF_FREE = 0.5
_LARGE_BYTES = 8 << 30
"""Beyond this a pool only takes longer: rounding no longer shows."""

_MOST_SEQUENCES = 4096
_DEFAULT_CONTEXT_TOKENS = 4096


def add_arguments(parser: ArgumentParser) -> None:
    """Which model, and how large the pools are."""
    add_model_arguments(parser)
    parser.add_argument(
        "--context", metavar="TOKENS", type=whole_number, help="length of the sequences of the larger pool"
    )
    parser.add_argument(
        "--sequences", metavar="N", type=whole_number, help="sequences in a pool; as half the free memory holds"
    )


def plan(args: Namespace) -> list[str]:
    """What will be allocated."""
    return [
        f"allocate the cache of {model_words(args)} in {args.kv_dtype or 'its own type'} at two sizes",
        f"  at most {args.fraction:.0%} of the memory, each in a process of its own; the driver says what it took",
    ]


def measure(args: Namespace, say: Say, bench: Bench) -> Iterator[Reading]:
    """One row: the bytes of two pools, and their slope beside what the service quotes."""
    question = {**asked_for(args), **({"kv_dtype": args.kv_dtype} if args.kv_dtype else {})}
    form = model_form(bench.service, question)
    answer = quoted(bench.service, question)
    kv_dtype = answer["question"]["kv_dtype"]
    formats = cache_formats(bench.service, kv_dtype)
    longest = args.context or min(_DEFAULT_CONTEXT_TOKENS, form.context_tokens or _DEFAULT_CONTEXT_TOKENS)
    contexts = compared_contexts(form, longest)
    pools = [parts(form, *formats, context) for context in contexts]
    sequences = args.sequences or _sequences(pools[1], bench, args.fraction)
    found = [_pool(bench, pool, sequences, say) for pool in pools]
    quotes = [_quote(bench.service, {**question, "kv_dtype": kv_dtype}, context) for context in contexts]
    setup = {**form.question, "kv_dtype": kv_dtype, "context_tokens": contexts[1]}
    values = compared(contexts, sequences, pools, found, quotes)
    say(_sentence(form.name, kv_dtype, values))
    yield bench.reading("kv_allocation", values, setup, [float(values["bytes_per_token"])])


def compared_contexts(form: ModelForm, longest: int) -> tuple[int, int]:
    """Two lengths between which every kind either grows or does not: no window ends between them."""
    if longest < 2:  # noqa: PLR2004  # two lengths are needed
        raise MeasureError("--context must be at least 2 tokens.")
    windows = [g.window_tokens for g in form.caches if g.window_tokens is not None and g.kind != "cross"]
    return max(1, longest // 4, *(window for window in windows if window < longest)), longest


def _sequences(pool: list[Part], bench: Bench, fraction: float) -> int:
    """As many as half the free memory holds, within the share that may be used; of very large memories less."""
    one = sum(part.bytes_of(1) for part in pool)
    usable = min(bench.free_bytes * _SHARE_OF_FREE, bench.total_bytes * fraction)
    if one > usable:
        raise MeasureError(f"One sequence takes {one:,} B and {usable:,.0f} B may be used; give a shorter --context.")
    return max(1, min(_MOST_SEQUENCES, int(min(usable, _LARGE_BYTES) // one)))


def _pool(bench: Bench, pool: list[Part], sequences: int, say: Say) -> dict[str, Any]:
    arguments = {**bench.arguments, "parts": [part.as_arguments() for part in pool], "sequences": sequences}
    found: dict[str, Any] = bench.nursery.run("kvquote_probe.measure.kv:allocate", arguments, say)
    return found


def _quote(service: Service, question: Mapping[str, Any], context: int) -> dict[str, Any]:
    answer = quoted(service, {**question, "context_tokens": context, "engine": "none"})
    return {
        "sequence": answer["kv_bytes_per_sequence"],
        "token": answer["kv_bytes_per_token"],
        "cache": answer["cache"],
    }


def compared(
    contexts: tuple[int, int],
    sequences: int,
    pools: list[list[Part]],
    found: Sequence[Mapping[str, Any]],
    quotes: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """The values of the row: what the driver said, each layer of allocation, and what was quoted."""
    tokens = [sequences * context for context in contexts]
    sizes = [pool["driver_bytes"] for pool in found]
    between = tokens[1] - tokens[0]
    arithmetic = [sum(part.bytes_of(sequences) for part in pool) for pool in pools]
    return {
        "tokens": tokens,
        "bytes": sizes,
        "bytes_per_token": (sizes[1] - sizes[0]) / between,
        "quoted_bytes_per_token": sequences * (quotes[1]["sequence"] - quotes[0]["sequence"]) / between,
        "arithmetic_bytes": arithmetic,
        "fixed_bytes": round(sizes[0] - tokens[0] * (sizes[1] - sizes[0]) / between),
        **{f"{name}_bytes": [pool["counters"][name] for pool in found] for name in found[0]["counters"]},
        "tensors": sum(len(part.rows) * part.layers for part in pools[1]),
        "sequences": sequences,
        "by_kind": [
            _by_kind(small, large, sequences, [pool["by_part"][at] for pool in found], between)
            for at, (small, large) in enumerate(zip(*pools, strict=True))
        ],
    }


def _by_kind(small: Part, large: Part, sequences: int, sizes: list[int], between: int) -> dict[str, Any]:
    expected = [part.bytes_of(sequences) for part in (small, large)]
    return {
        "kind": small.kind,
        "layers": small.layers,
        "window_tokens": small.window_tokens,
        "bytes": sizes,
        "arithmetic_bytes": expected,
        "bytes_per_token": (sizes[1] - sizes[0]) / between,
        "arithmetic_bytes_per_token": (expected[1] - expected[0]) / between,
    }


def _sentence(name: str, kv_dtype: str, values: Mapping[str, Any]) -> str:
    measured, expected = values["bytes_per_token"], values["quoted_bytes_per_token"]
    share = f", {measured / expected - 1:+.3%}" if expected else ""
    return f"{name} in {kv_dtype}: {measured:,.1f} B a token measured, {expected:,.1f} B quoted{share}"


def allocate(arguments: Mapping[str, Any], say: Say) -> dict[str, Any]:
    """The experiment: allocates every part, and asks the driver before and after each."""
    device = opened(arguments)
    refuse_if_used(device, shared=bool(arguments.get("shared")))
    wanted = [Part.from_arguments(given) for given in arguments["parts"]]
    sequences, kept, sizes = arguments["sequences"], [], []
    device.allocate_afresh()
    touch(allocated(Part("full", 1, 1, wanted[0].rows, None), 1, device.place)[0])  # loads what touching needs
    before = start = device.held_bytes()
    begun = device.counters()
    for part in wanted:
        tensors = allocated(part, sequences, device.place)
        for tensor in tensors:
            touch(tensor)
        kept.append(tensors)
        now = device.held_bytes()
        sizes.append(now - before)
        before = now
    say(f"{len(kept)} kinds, {before - start:,} B")
    counters = {name: size - begun[name] for name, size in device.counters().items()}
    return {"driver_bytes": before - start, "by_part": sizes, "counters": counters}
