"""Layers are built as the catalog's models have them, and compute what attention and experts are."""

from dataclasses import asdict, replace

import pytest

from kvquote_probe.commands import MeasureError
from kvquote_probe.measure.asking import model_form
from kvquote_probe.measure.blocks import Attention, FeedForward, LayerPlan, layer_plans
from kvquote_probe.measure.layer import spread
from kvquote_probe.measure.nursery import Nursery
from tests.clients.probe.measure.conftest import AppService

DRILLS = "tests.clients.probe.measure.drills:"
DENSE = FeedForward(64, gated=True)
PLANS = {
    "multi-head": LayerPlan(4, 32, Attention("full", 4, 4, 8, 8), FeedForward(48, gated=False)),
    "grouped": LayerPlan(4, 32, Attention("full", 8, 2, 8, 8), DENSE),
    "grouped, keys wider than values": LayerPlan(4, 32, Attention("full", 4, 2, 12, 8), DENSE),
    "gated": LayerPlan(4, 32, Attention("full", 4, 2, 8, 8, gate_width=32), DENSE),
    "sliding": LayerPlan(4, 32, Attention("sliding", 8, 2, 8, 8, 4), DENSE),
    "chunked": LayerPlan(4, 32, Attention("chunked", 8, 2, 8, 8, 4), DENSE),
    "latent": LayerPlan(4, 32, Attention("latent", 4, 1, 12, 6, latent_width=16, rope_width=4), DENSE),
    "latent, narrow queries": LayerPlan(4, 32, Attention("latent", 4, 1, 12, 6, None, 20, 0, 16, 4), DENSE),
    "routed": LayerPlan(4, 32, Attention("full", 8, 2, 8, 8), FeedForward(16, True, 8, 2, shared_width=24)),
}


@pytest.mark.parametrize("name", sorted(PLANS))
def test_attention_is_what_plain_sums_say(nursery: Nursery, name: str) -> None:
    plan = PLANS[name].as_arguments()

    found = nursery.run(f"{DRILLS}attention_against_reference", {"plan": plan}, lambda _: None)

    assert found == pytest.approx({"decode": 0.0, "prefill": 0.0}, abs=1e-5)


@pytest.mark.parametrize("name", sorted(PLANS))
def test_a_layer_has_the_weights_that_its_plan_counts(nursery: Nursery, name: str) -> None:
    plan = PLANS[name]

    found = nursery.run(f"{DRILLS}layer_weights", {"plan": plan.as_arguments()}, lambda _: None)

    assert found == plan.weight_elements


def test_the_routed_part_is_what_one_expert_after_the_other_gives(nursery: Nursery) -> None:
    asked = {"plan": PLANS["routed"].as_arguments(), "tokens": 9}

    assert nursery.run(f"{DRILLS}routed_against_reference", asked, lambda _: None) == pytest.approx(0.0, abs=1e-5)


def test_a_batch_touches_as_many_experts_as_even_routing_says() -> None:
    feed_forward = FeedForward(16, True, 128, 8)

    found = [spread(feed_forward, 32, seed).touched for seed in range(50)]

    assert sum(found) / len(found) == pytest.approx(feed_forward.experts_touched(32), rel=0.02)
    assert spread(feed_forward, 1).touched == 8


@pytest.mark.parametrize(
    "attention, context, read",
    [
        (Attention("full", 8, 2, 8, 8), 100, 100),
        (Attention("sliding", 8, 2, 8, 8, 64), 100, 64),
        (Attention("sliding", 8, 2, 8, 8, 64), 10, 10),
        (Attention("chunked", 8, 2, 8, 8, 64), 100, 36),
        (Attention("chunked", 8, 2, 8, 8, 64), 128, 64),
    ],
)
def test_a_decode_step_reads_what_the_window_leaves(attention: Attention, context: int, read: int) -> None:
    assert attention.tokens_read(context) == read


def catalog_ids(service: AppService) -> list[str]:
    found: list[str] = []
    cursor = None
    while cursor is not None or not found:
        more = f"&cursor={cursor}" if cursor else ""
        page = service.get(f"/models?has_reader=true&limit=200{more}")
        found += [row["id"] for row in page["items"]]
        cursor = page["next_cursor"]
    return sorted(found)


def test_layers_of_every_model_hold_its_parameters_or_are_refused_by_name(service: AppService) -> None:
    """Put together from shapes and counts alone, the layers have the weights that the reader counted."""
    models = catalog_ids(service)[::3]
    found = [built_share(service, model) for model in models if service.get(f"/models/{model}")["modules"]]

    whole = [share for share in found if share is not None]
    assert whole == pytest.approx([1.0] * len(whole), rel=0.05)
    assert len(whole) > 0.7 * len(found)


def built_share(service: AppService, model: str) -> float | None:
    """Parameters of all layers that are built against those that the model has; None where some are left out."""
    form = model_form(service, {"model": model})
    try:
        plans, notes = layer_plans(form)
    except MeasureError:
        return None
    if notes:
        return None
    own = sum(module.count * module.elements for module in form.modules if module.in_layers)
    assert sum(plan.layers for plan in plans) == form.layers, model
    return sum(plan.layers * plan.weight_elements for plan in plans) / own


@pytest.mark.parametrize("model", ["deepseek-v3.2", "falcon-h1-7b-instruct", "longcat-flash-chat", "mamba-2.8b"])
def test_what_cannot_be_built_is_refused_by_name(service: AppService, model: str) -> None:
    with pytest.raises(MeasureError, match=model):
        layer_plans(model_form(service, {"model": model}))


def test_layers_that_are_left_out_are_said(service: AppService) -> None:
    plans, notes = layer_plans(model_form(service, {"model": "qwen3-next-80b-a3b-instruct"}))

    assert [plan.layers for plan in plans] == [12]
    assert "36 layers with a recurrent cache" in notes[0]


@pytest.mark.parametrize(
    "model, layers, heads, kv_heads",
    [("llama-2-7b", 32, 32, 32), ("llama-3.1-8b-instruct", 32, 32, 8), ("qwen3-30b-a3b", 48, 32, 4)],
)
def test_heads_follow_from_the_shapes(service: AppService, model: str, layers: int, heads: int, kv_heads: int) -> None:
    (plan,), _ = layer_plans(model_form(service, {"model": model}))

    assert (plan.layers, plan.attention.heads, plan.attention.kv_heads) == (layers, heads, kv_heads)


def test_deepseek_v3_has_latent_attention_of_128_heads_over_dense_and_routed_layers(service: AppService) -> None:
    (routed, dense), _ = layer_plans(model_form(service, {"model": "deepseek-v3"}))

    expected = Attention("latent", 128, 1, 192, 128, None, 1536, 0, 512, 64)
    assert asdict(routed.attention) == asdict(expected)
    assert routed.feed_forward == FeedForward(2048, True, 256, 8, 2048)
    assert (routed.layers, dense) == (58, replace(routed, layers=3, feed_forward=FeedForward(18432, True)))


def test_gemma_3n_has_layers_that_share_another_one_s_cache(service: AppService) -> None:
    form = model_form(service, {"model": "gemma-3n-e4b-it"})

    plans, _ = layer_plans(form)

    # 20 of 35 layers own a cache (accounting 1.1).
    assert sum(plan.layers for plan in plans) == 35
    assert sum(plan.layers - plan.sharers for plan in plans) == 20


def test_gemma_3_has_windows_in_most_layers(service: AppService) -> None:
    (sliding, full), _ = layer_plans(model_form(service, {"model": "gemma-3-27b-it"}))

    assert (sliding.layers, sliding.attention.window_tokens, full.layers) == (52, 1024, 10)
