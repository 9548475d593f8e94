"""SGLang's default share of memory by device, ranks and release (accounting 3.1)."""

from typing import Any

import pytest

from service.domain.catalog import CatalogKind
from service.domain.engines.sglang import SglangEngine, from_facts
from service.domain.engines.sglang.fraction import Layout, batch_of, captured_sizes, fraction_of
from tests.domain.conftest import entry

H100 = Layout(81559, 1, 1, 1, latent=False, drafted=False, tower=(0, 0))


@pytest.fixture(scope="module")
def engine() -> SglangEngine:
    return from_facts(entry(CatalogKind.ENGINE, "sglang"))


def share(engine: SglangEngine, layout: Layout, version: str = "0.5.23", *, graphs: bool = True) -> float:
    rules = engine.release(version)
    return fraction_of(rules, layout, batch_of(rules, layout, None, None, graphs=graphs))


@pytest.mark.parametrize(
    "changed,version,expected",
    [
        ({}, "0.5.23", 0.830),
        ({"ranks": 8, "tensor": 8}, "0.5.23", 0.812),
        ({"latent": True}, "0.5.23", 0.816),
        ({"device_mib": 24564}, "0.5.23", 0.704),
        ({}, "0.5.5.post3", 0.835),
        ({"drafted": True}, "0.5.5.post3", 0.810),
        ({}, "0.4.10.post2", 0.874),
        ({"attention_ranks": 8, "ranks": 8, "tensor": 8}, "0.4.10.post2", 0.780),
        ({}, "0.4.6.post5", 0.88),
        ({"ranks": 16, "tensor": 16}, "0.4.6.post5", 0.79),
        ({"device_mib": 143771}, "0.4.6.post5", 0.8718),
        ({"device_mib": 143771}, "0.4.6.post1", (143771 - 13312) / 143771),
        ({"device_mib": 143771}, "0.4.5.post3", 0.88),
        ({"ranks": 2, "tensor": 2, "device_mib": 183359}, "0.4.6.post2", (183359 - 18432) / 183359),
        ({"prompt_graphs": False}, "0.5.3", (81559 - 512 - 1.5 * 8192 - 128 - 2 * 256) / 81559),
        ({"device_mib": 24564}, "0.5.4", (24564 - 512 - 1.5 * 2048 - 128 - 2 * 16 - 8 * 0) / 24564),
        ({"device_mib": 24564}, "0.5.4.post1", (24564 - 512 - 1.5 * 2048 - 128 - 2 * 24) / 24564),
        (
            {"drafted": True, "prompt_graphs": False},
            "0.5.10",
            (81559 - 512 - 1.5 * 8192 - 128 - 2 * 256 - 4096) / 81559,
        ),
        ({"drafted": True}, "0.5.13", (81559 - 512 - 1.5 * 8192 - 128 - 2 * 256 - 8 * 58 - 4096) / 81559),
        ({"drafted": True}, "0.5.14", (81559 - 512 - 1.5 * 8192 - 128 - 2 * 256 - 8 * 58) / 81559),
        ({"device_mib": 32607}, "0.5.19", (32607 - 512 - 1.5 * 2048 - 128 - 2 * 24 - 8 * 42) / 32607),
        ({"device_mib": 32607}, "0.5.20", (32607 - 512 - 1.5 * 4096 - 128 - 2 * 48 - 8 * 50) / 32607),
    ],
)
def test_the_share_is_what_the_release_works_out(
    engine: SglangEngine, changed: dict[str, Any], version: str, expected: float
) -> None:
    assert share(engine, H100._replace(**changed), version) == pytest.approx(expected, abs=6e-4)


def test_an_encoder_lowers_the_share_by_its_size(engine: SglangEngine) -> None:
    small, large = (share(engine, H100._replace(tower=tower)) for tower in ((24, 1024), (32, 1280)))
    assert small == pytest.approx(0.830 * 0.95)
    assert large == pytest.approx(0.830 * 0.95 * (1 - 0.1 * (32 * 1280**2 / (24 * 1024**2) - 1)))


def test_devices_above_60_gib_keep_at_least_ten(engine: SglangEngine) -> None:
    assert share(engine, H100, "0.5.23", graphs=False) == round((81559 - 12928) / 81559, 3)
    rules = engine.release("0.5.23")
    few = batch_of(rules, H100._replace(prompt_graphs=False), 2048, 8, graphs=True)
    assert fraction_of(rules, H100._replace(prompt_graphs=False), few) == round((81559 - 10240) / 81559, 3)


@pytest.mark.parametrize("most,sizes", [(8192, 58), (4096, 50), (512, 30), (4, 1), (3, 0)])
def test_so_many_prompt_sizes_are_captured(most: int, sizes: int) -> None:
    assert captured_sizes(most) == sizes


@pytest.mark.parametrize("version,mib", [("0.5.14", 512 + 12288 + 128 + 512), ("0.5.15", 512 + 12288 + 128)])
def test_graphs_are_counted_without_any_up_to_a_release(engine: SglangEngine, version: str, mib: int) -> None:
    assert share(engine, H100, version, graphs=False) == round((81559 - mib) / 81559, 3)


@pytest.mark.parametrize("version,sequences", [("0.5.21", 256), ("0.5.22", 16)])
def test_a_limit_of_sequences_caps_graphs_from_a_release_on(engine: SglangEngine, version: str, sequences: int) -> None:
    assert batch_of(engine.release(version), H100, None, 16, graphs=True).graph_sequences == sequences


@pytest.mark.parametrize("tower,version,factor", [((32, 1280), "0.4.9", 0.9), ((24, 1024), "0.4.9.post3", 0.95)])
def test_any_encoder_lowers_early_shares_alike(
    engine: SglangEngine, tower: tuple[int, int], version: str, factor: float
) -> None:
    assert share(engine, H100._replace(tower=tower), version) == pytest.approx(factor * share(engine, H100, version))
