"""`ceiling`: how many sequences of a context really fit beside a model's weights, found by trying.

Two ceilings are told apart: what can be allocated, and at how many a whole decode step still runs. The service
predicts, attempts bracket and bisect, each in a process of its own, none above the share of memory that may be used.
"""

from __future__ import annotations

import os
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kvquote_probe.commands import MeasureError, Say
from kvquote_probe.measure.asking import add_model_arguments, asked_for, cache_formats, model_form, model_words, quoted
from kvquote_probe.measure.blocks import layer_plans
from kvquote_probe.measure.cache import parts
from kvquote_probe.measure.form import PREDICTION, ModelForm
from kvquote_probe.measure.nursery import ExperimentDied
from kvquote_probe.measure.search import Ceiling, ceiling
from kvquote_probe.measure.setting import Bench, share, whole_number
from kvquote_probe.readings import Reading

_TORCH_TYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
_LIMITS = ("allocation", "step")
_DEFAULT_CONTEXT_TOKENS = 4096
_ATTEMPT_SECONDS = 900.0
_ALLOCATOR_VARIABLES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")


def add_arguments(parser: ArgumentParser) -> None:
    """Which model, which context, and how exactly."""
    add_model_arguments(parser)
    parser.add_argument(
        "--weight-dtype", metavar="NAME", help="how weights are kept; as the checkpoint has them unless said"
    )
    parser.add_argument(
        "--context", type=whole_number, metavar="TOKENS", help=f"of each sequence ({_DEFAULT_CONTEXT_TOKENS})"
    )
    parser.add_argument("--limit", choices=[*_LIMITS, "both"], default="both", help="which ceiling (%(default)s)")
    parser.add_argument(
        "--precision", type=share, default=0.01, metavar="SHARE", help="stop at a share of the ceiling (%(default)s)"
    )


def plan(args: Namespace) -> list[str]:
    """What will be tried."""
    what = "allocations, then whole decode steps," if args.limit == "both" else f"{args.limit}s"
    return [
        f"try {what} with {model_words(args)} and caches of {args.context or _DEFAULT_CONTEXT_TOKENS} tokens",
        f"  never above {args.fraction:.0%} of the memory of {args.device}, each attempt in a process of its own",
    ]


def measure(args: Namespace, say: Say, bench: Bench) -> Iterator[Reading]:
    """A row for each ceiling."""
    budget = getattr(args, "budget", None)
    until = None if budget is None else time.monotonic() + budget
    case = _case(args, bench)
    limits = _LIMITS if args.limit == "both" else (args.limit,)
    for limit in limits:
        try:
            told = case.step() if limit == "step" else case.allocation()
        except MeasureError as error:
            if args.limit != "both":
                raise
            say(f"{limit}: {error}")
            continue
        attempts = Attempts(bench, case, {**told, "limit": limit}, say, until)
        found = ceiling(case.predicted, attempts, args.precision)
        say(f"{limit}: {found.passed:,} sequences fit, {found.failed:,} do not; {case.predicted:,} were predicted")
        yield _reading(bench, case, limit, found)


@dataclass(frozen=True)
class Case:
    """A model in its types at a context, and the memory it may use."""

    form: ModelForm
    context_tokens: int
    weight_dtype: str
    kv_dtype: str
    weight_bytes: int
    cache_parts: list[dict[str, Any]]
    usable_bytes: int
    predicted: int

    def allocation(self) -> dict[str, Any]:
        """What an attempt at allocating is told: tensors layer by layer, then the cache."""
        return {"weights": self._layers(), "parts": self.cache_parts}

    def step(self) -> dict[str, Any]:
        """What an attempt at a step is told; raises MeasureError where the model cannot be built to multiply."""
        torch_type = _TORCH_TYPES.get(self.weight_dtype)
        if torch_type is None or self.kv_dtype != self.weight_dtype:
            raise MeasureError(
                f"torch multiplies and attends in one of {', '.join(_TORCH_TYPES)}, not with weights in"
                f" {self.weight_dtype} over a cache in {self.kv_dtype}: only the allocation can be tried."
            )
        plans, notes = layer_plans(self.form)
        if notes:
            raise MeasureError(f"Not all of {self.form.name} can be built: {'; '.join(notes)}.")
        return {
            "plans": [each.as_arguments() for each in plans],
            "torch_type": torch_type,
            "vocabulary_size": self.form.vocabulary_size,
            "tied": not self.form.named("lm_head"),
            "context_tokens": self.context_tokens,
        }

    def _layers(self) -> list[list[tuple[str, int]]]:
        """Torch types and elements of each layer's tensors, what stands outside the layers first.

        A format that torch has no type for is bytes, as many as the service counts for all weights.
        """
        torch_name = _TORCH_TYPES.get(self.weight_dtype)
        if torch_name is None:
            each, rest = divmod(self.weight_bytes, self.form.layers)
            return [[("uint8", each + (rest if layer == 0 else 0))] for layer in range(self.form.layers)]
        modules = [module for module in self.form.modules if module.kind != PREDICTION]
        outside = [
            (torch_name, module.elements) for module in modules if not module.in_layers for _ in range(module.count)
        ]
        layers: list[list[tuple[str, int]]] = [outside, *([] for _ in range(self.form.layers))]
        for module in modules:
            if module.in_layers:
                places = min(module.count, self.form.layers)
                each, rest = divmod(module.count, places)
                for at in range(places):
                    # Equal tensors of a layer, such as its experts, stand as one, as engines stack them.
                    layers[at + 1].append((torch_name, (each + (at < rest)) * module.elements))
        return layers


def _case(args: Namespace, bench: Bench) -> Case:
    form = model_form(bench.service, asked_for(args))
    context = args.context or min(_DEFAULT_CONTEXT_TOKENS, form.context_tokens or _DEFAULT_CONTEXT_TOKENS)
    usable = _usable_bytes(bench, args.fraction)
    types = {"kv_dtype": args.kv_dtype, "weight_dtype": args.weight_dtype}
    asked = {**form.question, **{name: value for name, value in types.items() if value}}
    answer = quoted(
        bench.service,
        {**asked, "context_tokens": context, "memory_bytes": usable, "reserve_bytes": 0, "engine": "none"},
    )
    question = answer["question"]
    pool = parts(form, *cache_formats(bench.service, question["kv_dtype"]), context)
    return Case(
        form=form,
        context_tokens=context,
        weight_dtype=question["weight_dtype"],
        kv_dtype=question["kv_dtype"],
        weight_bytes=answer["weight_bytes"],
        cache_parts=[part.as_arguments() for part in pool],
        usable_bytes=usable,
        predicted=answer["max_sequences"],
    )


def _usable_bytes(bench: Bench, fraction: float) -> int:
    """For weights and caches: within the share and what is free; a card's context is inside the share too."""
    context = 0 if bench.on_cpu else bench.facts["values"]["context_bytes"] or 0
    return max(0, int(min(bench.total_bytes * fraction - context, bench.free_bytes)))


class Attempts:
    """Attempts at one ceiling, each in a process of its own; none is begun that there is no time for."""

    def __init__(self, bench: Bench, case: Case, told: Mapping[str, Any], say: Say, until: float | None) -> None:
        self._bench, self._say, self._until = bench, say, until
        self._told = {**bench.arguments, **told, "usable_bytes": case.usable_bytes}
        self._longest = 0.0
        self._seen: dict[int, bool] = {}

    def __call__(self, sequences: int) -> bool:
        """Whether so many sequences fit. Raises MeasureError where the time is over."""
        begun = time.monotonic()
        if self._until is not None and begun + self._longest > self._until:
            raise MeasureError(f"There is no time for the next attempt: {self._so_far()}. Give it a longer --budget.")
        self._seen[sequences] = self._passes(sequences)
        self._longest = max(self._longest, time.monotonic() - begun)
        return self._seen[sequences]

    def _so_far(self) -> str:
        found = [f"{number:,} {'passed' if passed else 'failed'}" for number, passed in sorted(self._seen.items())]
        return f"one takes some {self._longest:.0f} s, {', '.join(found) or 'none was made'}"

    def _passes(self, sequences: int) -> bool:
        arguments = {**self._told, "sequences": sequences}
        try:
            result = self._bench.nursery.run(
                "kvquote_probe.measure.trial:attempt", arguments, self._say, _ATTEMPT_SECONDS
            )
        except ExperimentDied as death:
            # Where the system itself runs out of memory it ends the process. One that failed or took too long says
            # nothing of the memory.
            if not death.by_signal:
                raise
            self._say(f"{sequences:,} sequences: {death}")
            return False
        narrow = ", after the allocator gave back and tried again" if result.get("retries") else ""
        self._say(f"{sequences:,} sequences: {'passed' if result['passed'] else 'out of memory'}{narrow}")
        return bool(result["passed"])


def _reading(bench: Bench, case: Case, limit: str, found: Ceiling) -> Reading:
    setup = {
        **case.form.question,
        "context_tokens": case.context_tokens,
        "weight_dtype": case.weight_dtype,
        "kv_dtype": case.kv_dtype,
        "memory_bytes": case.usable_bytes,
    }
    values = {
        "passed_sequences": found.passed,
        "failed_sequences": found.failed,
        "limit": limit,
        "predicted_sequences": case.predicted,
        "usable_bytes": case.usable_bytes,
        "weight_bytes": case.weight_bytes,
        "attempts": [[sequences, passed] for sequences, passed in found.attempts],
        "allocator": next(filter(None, map(os.environ.get, _ALLOCATOR_VARIABLES)), None),
    }
    return bench.reading("batch_ceiling", values, setup, [float(found.passed)])
