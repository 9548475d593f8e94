"""How many positions the shorter of two sets of rotary frequencies is for."""

from typing import Any

import pytest

from service.domain.configs import read_config
from tests.domain.conftest import Shelf

LONG: dict[str, Any] = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "vocab_size": 256,
    "max_position_embeddings": 131_072,
}


@pytest.mark.parametrize("kind, found", [("longrope", 4096), ("su", 4096), ("yarn", None), ("llama3", None)])
def test_only_scalings_with_two_sets_have_a_shorter_one(kind: str, found: int | None) -> None:
    scaling = {"rope_scaling": {"type": kind, "factor": 4.0}, "original_max_position_embeddings": 4096}

    assert read_config({"model_type": "llama", **LONG, **scaling}).rotary.short_tokens == found


@pytest.mark.parametrize("stated", ["4096", True, -1, 0, 4096.5, [4096]])
def test_a_number_that_is_none_means_nothing(stated: object) -> None:
    scaling = {"rope_scaling": {"type": "longrope"}, "original_max_position_embeddings": stated}

    assert read_config({"model_type": "llama", **LONG, **scaling}).rotary.short_tokens is None


def test_config_classes_of_phi_know_it_where_the_file_is_silent() -> None:
    assert read_config({"model_type": "phi3", **LONG, "rope_scaling": {"type": "longrope"}}).rotary.short_tokens == 4096


@pytest.mark.parametrize("model", ["phi-3-mini-128k-instruct", "phi-3.5-moe-instruct", "phi-4-mini-instruct"])
def test_published_models_have_it(shelf: Shelf, model: str) -> None:
    assert shelf.model(model).architecture.rotary.short_tokens == 4096


def test_a_scaling_that_states_it_inside_says_nothing_to_other_classes(shelf: Shelf) -> None:
    """`getattr(hf_config, "original_max_position_embeddings", …)` finds nothing there: its own length is taken."""
    assert shelf.model("minicpm3-4b").architecture.rotary.short_tokens is None


def test_an_original_length_of_any_size_is_read_or_left_aside() -> None:
    scaling = {"rope_type": "yarn", "factor": 16, "original_max_position_embeddings": 10**400}

    assert read_config({"model_type": "llama", **LONG, "rope_scaling": scaling}).rotary.stretch == 1
