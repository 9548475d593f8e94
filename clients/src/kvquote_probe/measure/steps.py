"""`decode` and `prefill`: step times of a model's layers, fitted so that weights and cache come apart.

A few copies of a layer are timed for several numbers of copies, sequences and lengths. What is paid once a step, once
a layer, once a sequence and once a cached token then falls out of the fit (`fit`), and a whole model's step is told
with the error that the timings themselves show: those of the most layers against a fit of the others.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from kvquote_probe.commands import MeasureError, Say
from kvquote_probe.measure.asking import add_model_arguments, asked_for, model_form, model_words
from kvquote_probe.measure.blocks import LayerPlan, layer_plans
from kvquote_probe.measure.fit import Point, StepFit, fitted
from kvquote_probe.measure.form import ModelForm
from kvquote_probe.measure.setting import Bench, add_effort_arguments, amount, effort_of, whole_numbers
from kvquote_probe.readings import MOST_SAMPLES, Reading

_TORCH_TYPES = {"bf16": ("bfloat16", 2), "fp16": ("float16", 2), "fp32": ("float32", 4)}
_WORKING_SHARE = 0.8
"""Of the memory that may be used, what weights and caches take at most; the rest is for what a step computes."""

_MOST_LAYERS, _LEAST_LAYERS = 8, 3
_SHORTER_ON_CPU = 16
"""A CPU multiplies and reads a hundred times slower; lengths and layers that nobody chose are fewer there."""

_LEAST_SIZES = 2
_OLD_CAPABILITY = 8.0
"""Cards before this capability have no units for bf16."""

Size = tuple[int, int]


@dataclass(frozen=True)
class Steps:
    """One of the two measurements."""

    name: str
    kind: str
    counts: tuple[int, ...]
    lengths: tuple[int, ...]
    counted: str
    """What the first number of a size counts."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Which model, which sizes, and how carefully."""
        add_model_arguments(parser)
        add_effort_arguments(parser)
        parser.add_argument("--dtype", choices=sorted(_TORCH_TYPES), help="bf16 where the card has units for it")
        parser.add_argument("--layers", type=whole_numbers, metavar="N,...", help="copies of a layer, at least three")
        parser.add_argument(f"--{self.counted}", type=whole_numbers, metavar="N,...", help=_default(self.counts))
        parser.add_argument("--lengths", type=whole_numbers, metavar="TOKENS,...", help=_default(self.lengths))
        parser.add_argument(
            "--warm-cache", action="store_true", help="leave the last-level cache as the last step left it"
        )
        parser.add_argument(
            "--most-residual", type=amount, default=0.3, metavar="SHARE",
            help="keep no fit where timings are off by more (%(default)s)",
        )  # fmt: skip
        parser.add_argument("--no-graphs", action="store_true", help="launch each kernel instead of one graph a step")

    def plan(self, args: Namespace) -> list[str]:
        """What will be timed."""
        counts, lengths = self._sizes_of(args, on_cpu=args.device == "cpu")
        sizes = f"{self.counted.replace('-', ' ')} {_listed(counts)} x {_listed(lengths)} tokens"
        shorter = f"; on the CPU {_SHORTER_ON_CPU} times shorter" if args.device == "auto" and not args.lengths else ""
        layers = _listed(args.layers) if args.layers else "up to 8"
        return [
            f"{self.name} with {layers} layers of {model_words(args)}, random weights, {sizes}{shorter}",
            f"  {args.samples} times each, in an order of its own each time, and warm",
            f"  fitted over layers, sequences and tokens; at most {args.fraction:.0%} of the memory of {args.device}",
        ]

    def measure(self, args: Namespace, say: Say, bench: Bench) -> Iterator[Reading]:
        """A row with a fit for each kind of layer that can be built."""
        form = model_form(bench.service, asked_for(args))
        plans, notes = layer_plans(form)
        for note in notes:
            say(f"note: {note}")
        dtype = args.dtype or _dtype(bench)
        if args.kv_dtype not in {None, dtype}:
            raise MeasureError(
                f"torch attends to no cache in {args.kv_dtype} beside layers in {dtype}: leave --kv-dtype out."
            )
        fits: list[tuple[LayerPlan, StepFit]] = []
        for plan in plans:
            told = self._asked(args, bench, form, plan, dtype)
            found = bench.nursery.run(f"kvquote_probe.measure.stack:{self.name}", told, say, args.seconds + 600)
            fit = fitted([self._point(plan, row) for row in found["timings"]])
            fits.append((plan, fit))
            clear = all(each.relative_residual <= args.most_residual for _, each in fits)
            whole = fits if clear and len(fits) == len(plans) and not notes else []
            row = max(found["timings"], key=lambda each: (each["layers"], each["size"][0] * each["size"][1]))
            values = {**self._values(plan, found, fit, row), **self._whole(whole, row["size"], found["head"])}
            if fit.relative_residual > args.most_residual:
                values["fit"] = None
                say(f"the timings are off their fit by {fit.relative_residual:.0%}: they are kept, the fit is not")
            setup = {**form.question, "weight_dtype": dtype, "kv_dtype": dtype, **self._size_words(row["size"])}
            yield bench.reading(self.kind, values, setup, row["samples"])
            say(_sentence(self.name, form, plan, fit))

    def _sizes_of(self, args: Namespace, *, on_cpu: bool) -> tuple[Sequence[int], Sequence[int]]:
        usual = [length // _SHORTER_ON_CPU for length in self.lengths] if on_cpu else self.lengths
        return getattr(args, self.counted.replace("-", "_")) or self.counts, args.lengths or usual

    def _asked(self, args: Namespace, bench: Bench, form: ModelForm, plan: LayerPlan, dtype: str) -> dict[str, Any]:
        """What the experiment is told: sizes and layers that the memory holds."""
        torch_type, width = _TORCH_TYPES[dtype]
        counts, lengths = self._sizes_of(args, on_cpu=bench.on_cpu)
        lengths = told_apart(plan, lengths) if self.name == "decode" else lengths
        longest = form.context_tokens or max(lengths)
        sizes = [(count, length) for count in counts for length in lengths if length <= longest or args.lengths]
        budget = _WORKING_SHARE * min(bench.free_bytes, bench.total_bytes * args.fraction) / width
        budget -= form.vocabulary_size * form.hidden_size if self.name == "decode" else 0
        wanted = args.layers or ([1, 2, 3] if bench.on_cpu else None)
        sizes, layers = chosen(plan, sizes, budget, cached=self.name == "decode", layers=wanted)
        return {
            **bench.arguments,
            "plan": plan.as_arguments(),
            "torch_type": torch_type,
            "sizes": sizes,
            # Sizes that somebody chose are timed however long they take.
            "choose": not (args.lengths or getattr(args, self.counted.replace("-", "_"))),
            "layers": layers,
            "effort": effort_of(args),
            "cold": not args.warm_cache,
            "graphs": not args.no_graphs and self.name == "decode",
            "vocabulary_size": form.vocabulary_size if self.name == "decode" else None,
        }

    def _point(self, plan: LayerPlan, row: Mapping[str, Any]) -> Point:
        count, length = row["size"]
        each = self._each(plan, length)
        return Point(row["layers"], count * each[0], count * each[1], row["seconds"], row["experts"])

    def _each(self, plan: LayerPlan, length: int) -> tuple[int, int]:
        """Of one sequence: what is paid for each of it, and what is paid for what it looks at."""
        if self.name == "decode":
            return 1, plan.attention.tokens_read(length)
        return length, plan.attention.pairs(length)

    def _size_words(self, size: Size) -> dict[str, int]:
        """How a question says it."""
        if self.name == "decode":
            return {"batch_size": size[0], "context_tokens": size[1]}
        return {"prefill_sequences": size[0], "prompt_tokens": size[1]}

    def _values(
        self, plan: LayerPlan, found: Mapping[str, Any], fit: StepFit, row: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The values of the largest timing, with the fit over all of them."""
        return {
            "seconds": row["seconds"],
            "layers_timed": row["layers"],
            "graphs": found["graphs"],
            "fit": fit.told(row["experts"]),
            "worst_residual": fit.worst_residual,
            "held_out_error": fit.held_out_error,
            "layer_kind": plan.attention.kind,
            "layers_like_it": plan.layers,
            "experts_touched": row["experts"] or None,
            "layer_expert_seconds": fit.layer_expert_seconds if row["experts"] else None,
            "timings": [[each["layers"], *each["size"], each["seconds"]] for each in found["timings"]][:MOST_SAMPLES],
            "head_seconds": found["head"].get(str(row["size"][0])),
            **row["told"],
            **found["watched"],
        }

    def _whole(
        self, fits: Sequence[tuple[LayerPlan, StepFit]], size: Size, head: Mapping[str, float]
    ) -> dict[str, Any]:
        """The whole model's step, extrapolated, and the share that it may be off by; empty where a kind is missing."""
        if not fits:
            return {}
        count, length = size
        seconds = max(fit.fixed_seconds for _, fit in fits) + head.get(str(count), 0.0)
        for plan, fit in fits:
            each = self._each(plan, length)
            experts = plan.feed_forward.experts_touched(count * (1 if self.name == "decode" else length))
            seconds += fit.seconds(plan.layers, count * each[0], count * each[1], experts) - fit.fixed_seconds
        return {"model_seconds": seconds, "model_relative_error": max(fit.error for _, fit in fits)}


def told_apart(plan: LayerPlan, lengths: Sequence[int]) -> list[int]:
    """The lengths, and a shorter one where all reach past a window, which would hide what a token costs."""
    window = plan.attention.window_tokens
    if window is None or len({plan.attention.tokens_read(length) for length in lengths}) >= _LEAST_SIZES:
        return list(lengths)
    return [max(1, window // 4), *lengths]


def chosen(
    plan: LayerPlan, sizes: Sequence[Size], elements: float, *, cached: bool, layers: Sequence[int] | None
) -> tuple[list[Size], list[int]]:
    """The sizes of which three layers fit into so many elements, and the numbers of layers to time.

    Raises:
        MeasureError: too few sizes fit, or fewer than three layers.
    """

    def each(size: Size) -> float:
        tokens = size[0] * (1 if cached else size[1])
        kept = plan.elements_with(min(plan.feed_forward.experts, ceil(plan.feed_forward.experts_touched(tokens)) + 1))
        return kept + (size[0] * plan.attention.tokens_read(size[1]) * plan.cache_elements if cached else 0)

    most = max(layers) if layers else _LEAST_LAYERS
    fitting = [size for size in sizes if most * each(size) <= elements]
    if len({size[0] for size in fitting}) < _LEAST_SIZES or len({size[1] for size in fitting}) < _LEAST_SIZES:
        raise MeasureError(f"Fewer than two sizes of {most} such layers fit the memory that may be used.")
    if layers:
        return fitting, sorted(set(layers))
    room = int(elements // max(map(each, fitting)))
    top = min(_MOST_LAYERS, room)
    return fitting, sorted({1, (top + 1) // 2, top})


def _dtype(bench: Bench) -> str:
    capability = bench.facts["gpu"].get("compute_capability") or ""
    if bench.on_cpu:
        return "fp32"
    number = capability.replace(".", "", 1)
    return "fp16" if number.isdigit() and float(capability) < _OLD_CAPABILITY else "bf16"


def _sentence(name: str, form: ModelForm, plan: LayerPlan, fit: StepFit) -> str:
    token = fit.layer_token_seconds * 1e9
    return (
        f"{name}, {plan.attention.kind} layers of {form.name}: {fit.fixed_seconds * 1e6:,.1f} us a step,"
        f" {fit.layer_seconds * 1e6:,.1f} us a layer, {fit.layer_sequence_seconds * 1e6:,.3f} us more for a sequence"
        f" and {token:,.3f} ns for a token; residual {fit.relative_residual:.1%}, held out {fit.held_out_error:.1%}"
    )


def _listed(numbers: Sequence[int]) -> str:
    return "/".join(map(str, numbers))


def _default(numbers: Sequence[int]) -> str:
    return f"{','.join(map(str, numbers))} unless said"


DECODE = Steps("decode", "decode_step", (1, 8, 32, 128), (512, 2048, 8192), "batch-sizes")
PREFILL = Steps("prefill", "prefill", (1, 2), (256, 1024, 4096), "prompts")
