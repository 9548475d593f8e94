"""Steps of layers on the CPU: the rows that come of them, and the sizes that memory holds."""

import itertools
from argparse import ArgumentParser, Namespace
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kvquote_probe.commands import MeasureError
from kvquote_probe.measure.blocks import Attention, FeedForward, LayerPlan
from kvquote_probe.measure.setting import Bench, add_device_arguments
from kvquote_probe.measure.steps import DECODE, PREFILL, Steps, chosen, told_apart
from kvquote_probe.readings import Reading
from kvquote_probe.rows import make_row
from service.api.schemas.measurement_rows import read_row
from tests.clients.probe.measure.tiny import config_file

PROBE = "0b5f2d0e-8f0c-4c6e-9d57-3f1c2b1d9a10"
QUICK = "--samples 3 --warm-up 0 --seconds 1 --warm-cache --layers 1,2,3 --most-residual 1000"


def asked(steps: Steps, line: str) -> Namespace:
    parser = ArgumentParser()
    add_device_arguments(parser)
    steps.add_arguments(parser)
    return parser.parse_args([*QUICK.split(), *line.split()])


def measured(steps: Steps, bench: Bench, line: str) -> list[Reading]:
    return list(steps.measure(asked(steps, line), lambda _: None, bench))


@pytest.mark.parametrize("name, kinds", [("grouped", ["full"]), ("windowed", ["sliding", "full"])])
def test_decoding_gives_a_row_with_a_fit_for_each_kind_of_layer(
    bench: Bench, tmp_path: Path, name: str, kinds: list[str]
) -> None:
    readings = measured(DECODE, bench, f"--config {config_file(tmp_path, name)} --batch-sizes 1,4 --lengths 16,64")

    assert [reading.values["layer_kind"] for reading in readings] == kinds
    for reading in readings:
        assert read_row(make_row(reading, PROBE), 3).faults == []
        assert reading.values["layers_timed"] == 3
        assert reading.values["fit"]["points"] == (18 if reading.values["layer_kind"] == "sliding" else 12)
        assert reading.values["seconds"] > 0
        assert reading.setup is not None
        assert (reading.setup["batch_size"], reading.setup["context_tokens"]) == (4, 64)
    # The last row tells the whole model, head and all, with the error that the fits show.
    last = readings[-1].values
    assert last["model_seconds"] > last["head_seconds"] > 0
    assert last["model_relative_error"] >= last["fit"]["relative_residual"]


def test_timings_that_scatter_are_kept_without_a_fit(bench: Bench, tmp_path: Path, said: list[str]) -> None:
    line = f"--config {config_file(tmp_path, 'grouped')} --batch-sizes 1,4 --lengths 16,64 --most-residual 0"

    (reading,) = DECODE.measure(asked(DECODE, line), said.append, bench)

    assert "fit" not in reading.values
    assert "model_seconds" not in reading.values
    assert len(reading.values["timings"]) == 12
    assert any("the fit is not" in line for line in said)


def test_prompts_give_a_row_with_a_fit(bench: Bench, tmp_path: Path) -> None:
    (reading,) = measured(PREFILL, bench, f"--config {config_file(tmp_path, 'grouped')} --prompts 1,2 --lengths 8,32")

    assert read_row(make_row(reading, PROBE), 3).faults == []
    assert reading.setup is not None
    assert (reading.setup["prefill_sequences"], reading.setup["prompt_tokens"]) == (2, 32)
    assert reading.values["fit"]["layer_sequence_seconds"] >= 0


@pytest.mark.parametrize("steps, sizes", [(DECODE, "--batch-sizes"), (PREFILL, "--prompts")])
def test_latent_and_routed_layers_are_timed_by_the_experts_that_a_batch_touches(
    bench: Bench, tmp_path: Path, steps: Steps, sizes: str
) -> None:
    config = config_file(tmp_path, "latent")

    readings = measured(steps, bench, f"--config {config} {sizes} 1,2 --lengths 8,32")

    assert [reading.values["layers_like_it"] for reading in readings] == [5, 1]
    assert readings[0].values["layer_kind"] == "latent"
    assert 2 <= readings[0].values["experts_touched"] <= 8
    assert [read_row(make_row(reading, PROBE), 3).faults for reading in readings] == [[], []]


PLAN = LayerPlan(32, 64, Attention("full", 8, 2, 8, 8), FeedForward(128, gated=True))


def test_sizes_that_do_not_fit_are_left_out_and_layers_fill_the_rest() -> None:
    sizes = [(count, length) for count in (1, 8, 64) for length in (16, 128, 1024)]
    one = PLAN.weight_elements + 64 * 16 * PLAN.cache_elements

    found, layers = chosen(PLAN, sizes, 6.5 * one, cached=True, layers=None)

    assert (64, 1024) not in found
    assert max(count * length for count, length in found) <= 6.5 * one / 3 / PLAN.cache_elements
    assert layers[0] == 1
    assert len(layers) == 3
    assert max(layers) * (PLAN.weight_elements + max(c * t for c, t in found) * PLAN.cache_elements) <= 6.5 * one


class PlantedNursery:
    """Answers with step times of planted coefficients, as a device without noise would give them."""

    fixed, layer, sequence, token, head = 20e-6, 150e-6, 0.4e-6, 0.9e-9, 300e-6

    def __init__(self, facts: dict[str, Any]) -> None:
        self._facts = facts

    def run(self, call: str, arguments: dict[str, Any], *_: object, **__: object) -> dict[str, Any]:
        if call.endswith("look"):
            return self._facts
        sizes = itertools.product(arguments["layers"], arguments["sizes"])
        timings = [self.timing(n, LayerPlan.from_arguments(arguments["plan"]), size) for n, size in sizes]
        heads = {str(size[0]): self.head for size in arguments["sizes"]}
        return {"timings": timings, "graphs": True, "head": heads, "watched": {}}

    def timing(self, layers: int, plan: LayerPlan, size: tuple[int, int]) -> dict[str, Any]:
        read = size[0] * plan.attention.tokens_read(size[1])
        seconds = self.fixed + layers * self.each(size[0], read)
        return {"layers": layers, "size": size, "experts": 0, "seconds": seconds, "samples": [seconds], "told": {}}

    def each(self, sequences: int, tokens: int) -> float:
        return self.layer + sequences * self.sequence + tokens * self.token


def test_a_whole_step_is_what_all_kinds_of_its_layers_and_the_head_take(bench: Bench, tmp_path: Path) -> None:
    planted = PlantedNursery(bench.facts)
    line = f"--config {config_file(tmp_path, 'windowed')} --batch-sizes 1,4 --lengths 8,64"

    sliding, full = measured(DECODE, replace(bench, nursery=planted), line)  # type: ignore[arg-type]

    # Four layers with a window of 16 tokens and two without, four sequences of 64 tokens.
    expected = planted.fixed + planted.head + 4 * planted.each(4, 4 * 16) + 2 * planted.each(4, 4 * 64)
    assert full.values["model_seconds"] == pytest.approx(expected, rel=1e-6)
    assert full.values["model_relative_error"] == pytest.approx(0.0, abs=1e-6)
    assert sliding.values["fit"]["layer_token_seconds"] == pytest.approx(planted.token, rel=1e-6)
    assert full.values["graphs"] is True
    assert "model_seconds" not in sliding.values


def test_a_window_that_all_lengths_pass_gets_a_shorter_one() -> None:
    windowed = replace(PLAN, attention=Attention("sliding", 8, 2, 8, 8, 128))

    assert told_apart(windowed, [512, 2048]) == [32, 512, 2048]
    assert told_apart(windowed, [64, 512]) == [64, 512]
    assert told_apart(PLAN, [512, 2048]) == [512, 2048]


def test_where_not_two_sizes_fit_it_says_so() -> None:
    with pytest.raises(MeasureError, match="Fewer than two sizes"):
        chosen(PLAN, [(1, 16), (8, 128)], 4 * PLAN.weight_elements, cached=True, layers=[1, 2, 9])


def test_a_cache_type_that_torch_cannot_attend_to_is_refused(bench: Bench) -> None:
    with pytest.raises(MeasureError, match="--kv-dtype"):
        measured(DECODE, bench, "--model smollm2-135m-instruct --kv-dtype fp8")


def test_a_plan_says_what_will_be_timed() -> None:
    text = "\n".join(DECODE.plan(asked(DECODE, "--model gpt2 --batch-sizes 1,2")))

    assert "1/2/3 layers of gpt2" in text
    assert "batch sizes 1/2 x 512/2048/8192 tokens" in text
