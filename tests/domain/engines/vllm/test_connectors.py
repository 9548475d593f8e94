"""Connectors: where they end the groups of windows, by release."""

import pytest

from service.answers import fit_answer
from service.domain.engines.vllm import VllmEngine
from service.domain.engines.vllm.connectors import Verdict
from service.domain.errors import ValidationError
from tests.domain.commands.command_cases import catalog
from tests.domain.engines.vllm.conftest import Hold


def hybrid(engine: VllmEngine, name: str, version: str, *, asked: bool | None = None, late: bool = False) -> Verdict:
    """What a connector without settings does to a release."""
    return engine.connectors.beside(name, {}, engine.release(version).release, asked=asked, late=late)


@pytest.mark.parametrize(
    "name, version, expected",
    [
        ("NixlConnector", "0.9.2", False),
        ("NixlConnector", "0.12.0", False),
        ("NixlConnector", "0.19.0", False),
        ("NixlConnector", "0.21.0", False),
        ("NixlConnector", "0.22.0", None),
        ("MooncakeConnector", "0.33.0", None),
        ("LMCacheConnectorV1", "0.33.0", False),
        ("ExampleConnector", "0.33.0", False),
    ],
)
def test_groups_are_kept_from_the_release_on_that_asks_the_connector(
    engine: VllmEngine, name: str, version: str, expected: bool | None
) -> None:
    assert hybrid(engine, name, version) == Verdict(hybrid=expected)


@pytest.mark.parametrize(
    "version, starts",
    [("0.11.2", False), ("0.13.0", False), ("0.20.2", False), ("0.21.0", True), ("0.33.0", True)],
)
def test_a_cache_on_the_host_starts_where_its_connector_is_able_to_keep_groups(
    engine: VllmEngine, version: str, starts: bool
) -> None:
    assert (hybrid(engine, "OffloadingConnector", version, late=True).wrong is None) is starts
    assert hybrid(engine, "OffloadingConnector", version, late=True, asked=False) == Verdict(hybrid=False)


def several(engine: VllmEngine, *children: object) -> Verdict:
    """What a connector that is made of others does to a release that asks each whether it keeps windows."""
    settings = {"connectors": list(children)}
    return engine.connectors.beside("MultiConnector", settings, engine.release("0.33.0").release, asked=None)


NIXL = {"kv_connector": "NixlConnector"}


def test_no_connector_of_several_is_left_out_without_a_word(engine: VllmEngine) -> None:
    assert several(engine, *[NIXL] * 16) == Verdict()
    assert several(engine, *[NIXL] * 15, {"kv_connector": "ExampleConnector"}) == Verdict(hybrid=False)
    assert several(engine, *[NIXL] * 17) == Verdict(refused="More than 16 connectors within one are not read")


def test_connectors_within_connectors_are_read(engine: VllmEngine) -> None:
    def within(child: object) -> dict[str, object]:
        return {"kv_connector": "MultiConnector", "kv_connector_extra_config": {"connectors": [NIXL, child]}}

    assert several(engine, within(NIXL)) == Verdict()
    assert several(engine, within({"kv_connector": "ExampleConnector"})) == Verdict(hybrid=False)
    assert "'Novel'" in str(several(engine, within({"kv_connector": "Novel"})).refused)
    layerwise = {**NIXL, "kv_connector_extra_config": {"use_layerwise": True}}
    assert "use_layerwise" in str(several(engine, within(layerwise)).refused)
    deep: object = NIXL
    for _ in range(500):
        deep = within(deep)
    assert "More than 16" in str(several(engine, deep).refused)


@pytest.mark.parametrize("name", ["NixlConnector", "LMCacheConnectorV1", "OffloadingConnector"])
@pytest.mark.parametrize("version", ["0.11.2", "0.19.0", "0.33.0"])
def test_a_model_of_one_group_is_quoted_as_without_a_connector(name: str, version: str) -> None:
    asked = {"gpu": "h100-sxm-80gb", "engine_version": version}
    plain = "vllm serve meta-llama/Llama-3.1-8B-Instruct --max-model-len 8192"
    with_it = fit_answer({**asked, "command": f"{plain} --kv-transfer-config.kv_connector {name}"}, catalog())
    without = fit_answer({**asked, "command": plain}, catalog())
    for key in ("max_sequences", "kv_capacity_tokens", "max_concurrency", "ledger"):
        assert with_it[key] == without[key]


def test_windows_are_charged_whole_beside_a_connector_that_is_not_able() -> None:
    """gpt-oss-20b: 12 of its 24 layers keep a window of 128 tokens, 2 KiB a token and layer."""
    command = "vllm serve openai/gpt-oss-20b --max-model-len 131072 --kv-transfer-config.kv_connector "
    whole, kept = (
        fit_answer({"gpu": "h100-sxm-80gb", "command": command + name}, catalog())
        for name in ("LMCacheConnectorV1", "NixlConnector")
    )
    assert (whole["kv_bytes_per_token"], kept["kv_bytes_per_token"]) == (24 * 2048, 12 * 2048)
    assert whole["max_concurrency"] < 0.6 * kept["max_concurrency"]


def test_states_need_groups_of_their_own(quote: Hold) -> None:
    asked = {"model": "qwen3-next-80b-a3b-instruct", "gpu": "h200-sxm-141gb", "tensor_parallel": 4}
    assert len(quote(**asked).plan.groups) > 1
    with pytest.raises(ValidationError) as raised:
        quote(**asked, hybrid_cache=False)
    assert raised.value.faults[0].pointer == "/hybrid_cache"
