"""The normal form as the service sends it, read back into shapes."""

import pytest

from kvquote_probe.commands import MeasureError
from kvquote_probe.measure.asking import model_form
from kvquote_probe.measure.form import ModelForm
from tests.clients.probe.measure.conftest import AppService


def test_a_model_of_the_catalog_and_its_config_have_one_form(service: AppService) -> None:
    shapes = {"hidden_size": 576, "intermediate_size": 1536, "num_attention_heads": 9, "num_key_value_heads": 3}
    table = {"vocab_size": 49152, "tie_word_embeddings": True, "max_position_embeddings": 8192}
    config = {"model_type": "llama", "num_hidden_layers": 30, "torch_dtype": "bfloat16", **shapes, **table}

    listed = model_form(service, {"model": "smollm2-135m-instruct"})
    inspected = model_form(service, {"config": config})

    assert inspected.caches == listed.caches
    assert inspected.modules == listed.modules
    assert (listed.layers, listed.hidden_size, listed.vocabulary_size) == (30, 576, 49152)


def test_a_model_without_a_normal_form_is_refused_with_the_service_s_reason() -> None:
    document = {"id": "x", "cache_layers": None, "modules": None, "unread_reason": "No reader knows it."}

    with pytest.raises(MeasureError, match="No reader knows it"):
        ModelForm.read(document, {"model": "x"})
