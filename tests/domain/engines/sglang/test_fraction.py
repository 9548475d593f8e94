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
    assert share(engine, H100, "0.5.5.post3", graphs=False) == round((81559 - 12928) / 81559, 3)
    rules = engine.release("0.5.5.post3")
    few = batch_of(rules, H100, 2048, 8, graphs=True)
    assert fraction_of(rules, H100, few) == round((81559 - 10240) / 81559, 3)


@pytest.mark.parametrize("most,sizes", [(8192, 58), (4096, 50), (512, 30), (4, 1), (3, 0)])
def test_so_many_prompt_sizes_are_captured(most: int, sizes: int) -> None:
    assert captured_sizes(most) == sizes
