"""Every published model in the data is read exactly: parameters to the parameter, cache to the byte."""

from fractions import Fraction

import pytest

from service.domain.architecture import Architecture, ModuleKind
from service.domain.configs import known_model_types, read_config
from service.domain.precision import CacheFormat
from tests.domain.configs.published import Published, named, published_models

BF16 = CacheFormat("bf16", Fraction(16), 1, Fraction(0))
EACH = pytest.mark.parametrize("published", published_models(), ids=lambda published: str(published.model))


def cache_bytes(architecture: Architecture, context_tokens: int) -> Fraction | int:
    held = [len(group.layers) * group.spec.sequence_bytes(BF16, context_tokens) for group in architecture.caches]
    return sum(held)


@EACH
def test_the_parameters_are_the_model_codes_own(published: Published) -> None:
    assert read_config(published.config).parameters == published.parameters


@EACH
def test_a_token_uses_all_but_the_experts_it_does_not_visit(published: Published) -> None:
    architecture = read_config(published.config)

    assert published.active_parameters in (None, architecture.active_parameters)
    assert architecture.active_parameters <= architecture.parameters


@EACH
def test_the_cache_of_a_sequence_is_exact(published: Published) -> None:
    architecture = read_config(published.config)

    assert {tokens: cache_bytes(architecture, tokens) for tokens in published.cache_bytes} == published.cache_bytes


@EACH
def test_prediction_layers_are_counted_apart(published: Published) -> None:
    modules = [m for m in read_config(published.config).modules if m.kind is ModuleKind.PREDICTION]

    assert published.prediction_parameters in (0, sum(module.parameters for module in modules))


@pytest.mark.parametrize("model", ["google/gemma-2-2b", "openai/gpt-oss-20b", "XiaomiMiMo/MiMo-V2-Flash"])
def test_each_layer_owns_one_cache_of_keys_and_values(model: str) -> None:
    architecture = read_config(named(model))

    assert sorted(layer for group in architecture.caches for layer in group.layers) == list(range(architecture.layers))


@EACH
def test_module_names_are_unique_where_their_layers_are(published: Published) -> None:
    owners = [(m.name, layer) for m in read_config(published.config).modules for layer in m.layers or (None,)]

    assert len(owners) == len(set(owners))


def test_the_data_holds_many_families() -> None:
    types = {published.config["model_type"] for published in published_models()}

    assert types <= set(known_model_types())
    assert len(types) >= 60
