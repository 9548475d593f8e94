"""Which row of a table of times counts."""

from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from service.domain.catalog import CatalogKind
from service.domain.engines.times import Case, StepPolicy, Times, step_policy
from tests.domain.conftest import Shelf, entry

SHELF = Shelf()
ENGINES = ("none", "vllm", "sglang", "llama.cpp")
FORMATS = (("bf16", 16.0), ("fp8", 8.0), ("fp8_block128", 8.0), ("q8_0", 8.5), ("awq", 4.0), ("nvfp4", 4.0))


def times(  # noqa: PLR0913  # a case is what it is made of
    engine: str,
    gpu: str | None,
    *,
    weights: str = "bf16",
    weight_bits: float = 16.0,
    cache_bits: float = 16.0,
    ranks: int = 1,
    release: str | None = None,
) -> Times:
    device = None if gpu is None else SHELF.gpu(gpu)
    return policy(engine).times(Case(device, weights, weight_bits, cache_bits, ranks, release))


def policy(engine: str) -> StepPolicy:
    return SHELF.engine(engine).step


def test_a_card_with_figures_of_its_own_has_them() -> None:
    assert times("none", "a100-sxm-80gb").weight_fraction == 0.79


def test_an_unknown_card_has_those_of_its_memory() -> None:
    assert times("none", "v100-sxm2-32gb").weight_fraction == 0.80
    assert times("none", "rtx-3090").weight_fraction == 0.87


@pytest.mark.parametrize("engine", ENGINES)
def test_a_device_that_nobody_named_has_the_last_row(engine: str) -> None:
    assert times(engine, None).weight_fraction == 0.75


@pytest.mark.parametrize("bits,fraction", [(16.0, 0.88), (8.0, 0.79), (4.5, 0.65)])
def test_narrow_weights_keep_less_of_the_bandwidth(bits: float, fraction: float) -> None:
    assert times("vllm", "h100-sxm-80gb", weight_bits=bits).weight_fraction == fraction


def test_a_cache_has_a_width_of_its_own() -> None:
    assert times("vllm", "b200-sxm-180gb", cache_bits=8.0).cache_fraction == 0.87
    assert times("vllm", "b200-sxm-180gb", weight_bits=4.0).cache_fraction == 0.94


@pytest.mark.parametrize("release,sequence", [(None, 26e-6), ("0.5.4", 65e-6), ("0.6.0", 26e-6), ("0.31.0", 26e-6)])
def test_an_old_release_has_what_was_measured_on_it(release: str | None, sequence: float) -> None:
    assert times("vllm", "h100-sxm-80gb", release=release).sequence_seconds == sequence


def test_scores_that_are_written_out_are_a_matter_of_the_build() -> None:
    assert times("llama.cpp", "rtx-3090", release="b4000").score_bytes == 16
    assert times("llama.cpp", "rtx-3090", release="b9000").score_bytes is None


@pytest.mark.parametrize("ranks,rate", [(2, 19e9), (4, 2.9e9), (8, 1.1e9)])
def test_a_card_without_nvlink_gets_slower_with_ranks(ranks: int, rate: float) -> None:
    assert times("vllm", "l40s", ranks=ranks).link_bytes_per_second == rate


def test_a_link_without_figures_has_a_share_of_what_is_listed() -> None:
    listed = SHELF.gpu("v100-sxm2-32gb").nvlink_bytes_per_second
    assert times("none", "v100-sxm2-32gb", ranks=8).link_bytes_per_second == pytest.approx(0.23 * (listed or 0))


def test_a_kernel_that_multiplies_wider_than_its_format_is_told() -> None:
    assert times("vllm", "gb10-dgx-spark", weights="nvfp4", weight_bits=4.0).multiplies == ("bf16", "fp16")
    assert times("vllm", "b200-sxm-180gb", weights="nvfp4", weight_bits=4.0).multiplies is None


def test_the_share_of_the_peak_grows_to_its_maximum() -> None:
    hopper = times("vllm", "h100-sxm-80gb", weight_bits=8.0)
    assert hopper.share(360, 0) == pytest.approx(0.48 / 2)
    assert hopper.share(1e9, 0) == pytest.approx(0.48)


def test_a_half_in_ridges_moves_with_the_card() -> None:
    unknown = times("none", None)
    assert unknown.share(90, 100) == pytest.approx(0.65 / 2)


@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_kept_of_one_case_is_right_for_every_case_like_it(engine: str) -> None:
    kept = replace(policy(engine))
    for gpu, weights, ranks in product(("h100-sxm-80gb", "l40s", "mi300x"), FORMATS, range(1, 10)):
        case = Case(SHELF.gpu(gpu), *weights, 16.0, ranks, None)
        assert kept.times(case) == replace(kept).times(case)


def blocks() -> dict[str, dict[str, Any]]:
    last: dict[str, Any] = {"wide": 0.5, "eight": 0.5, "four": 0.5}
    step = {
        "fixed_seconds": [{"step": 0, "layer": 0, "expert_layer": 0, "sequence": 0}],
        "weight_fraction": [last],
        "cache_fraction": [{"since": "b7000", "wide": 0.6, "narrow": 0.6}, {"wide": 0.2, "narrow": 0.2}],
        "arithmetic": [{"types": None}],
        "compute_fraction": 0.7,
        "expert_coverage": 0.85,
        "small_expert_parameters": 1,
        "spread": [{"dense": 0.2, "experts": 0.3, "small_experts": 0.5}],
    }
    prefill = {
        "work": [last | {"half_tokens": 1}],
        "experts": 0.5,
        "attention": [{"score_bytes": 16}],
        "chunk": [{"tokens": 512}],
        "spread": [{"dense": 0.2, "experts": 0.3, "small_experts": 0.5}],
    }
    link = {"all_reduce": [{"seconds": 0, "bytes_per_second": 1}]}
    return {"step": step, "prefill": prefill, "link": link}


@pytest.mark.parametrize("release,fraction", [(None, 0.2), ("b6999", 0.2), ("b7000", 0.6), ("b10000", 0.6), ("x", 0.2)])
def test_builds_are_compared_by_their_count(release: str | None, fraction: float) -> None:
    case = Case(None, "bf16", 16.0, 16.0, 1, release)
    assert step_policy(blocks()).times(case).cache_fraction == fraction


def test_a_table_that_may_leave_a_case_out_is_refused() -> None:
    facts = blocks()
    facts["link"]["all_reduce"][0]["vendor"] = "nvidia"
    with pytest.raises(ValueError, match="last row"):
        step_policy(facts)


def test_a_catalog_from_before_drafts_and_all_to_alls_is_read() -> None:
    policy = step_policy(blocks())
    assert policy.speculation is None
    assert policy.times(Case(None, "bf16", 16.0, 16.0, 8, None)).all_to_all is None


@pytest.mark.parametrize(
    "gpu,rate", [("h100-sxm-80gb", 0.4 * 900e9), ("h800-sxm-80gb", 160e9), ("b200-sxm-180gb", 720e9)]
)
def test_all_to_alls_go_at_a_share_of_the_links(gpu: str, rate: float) -> None:
    found = times("sglang", gpu, ranks=8).all_to_all
    assert found is not None
    assert found == pytest.approx((27e-6, rate))


def test_all_to_alls_without_nvlink_were_not_measured() -> None:
    assert times("sglang", "l40s", ranks=8).all_to_all is None


def test_a_send_takes_what_an_all_reduce_of_two_ranks_takes() -> None:
    two, eight = (times("vllm", "l40s", ranks=n) for n in (2, 8))
    assert (eight.send_seconds, eight.send_bytes_per_second) == (two.all_reduce_seconds, two.link_bytes_per_second)
    assert eight.all_reduce_seconds > eight.send_seconds


def test_coefficients_are_found_once() -> None:
    assert times("none", "l4") is times("none", "l4")


def test_coefficients_of_a_few_cases_are_kept_and_of_all_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.domain.engines.times._KEPT", 2)
    few, usual = (step_policy(entry(CatalogKind.ENGINE, "vllm").facts) for _ in range(2))
    sizes = []
    for gpu, bits in product(("l40s", "h100-sxm-80gb", "b200-sxm-180gb"), (4.0, 8.0, 16.0)):
        case = Case(SHELF.gpu(gpu), "bf16", bits, 16.0, 1, None)
        assert few.times(case).weight_fraction == usual._times(case).weight_fraction
        sizes.append(len(few.kept))

    assert max(sizes) == 2
