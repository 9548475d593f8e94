"""What is refused before anything is counted, and where the refusal points."""

from dataclasses import replace
from typing import Any

import pytest

from service.domain.errors import NotSupported, QuoteError, UnknownArchitecture, ValidationError
from service.domain.naming import NamedModel
from service.domain.question import resolve
from tests.domain.conftest import Shelf

LLAMA = {"model": "llama-2-7b", "gpu": "h100-sxm-80gb", "engine": "none"}
SIZES = {"hidden_size": 4096, "num_hidden_layers": 1, "num_attention_heads": 32, "vocab_size": 32_000}


class Holding(Shelf):
    """The shelf, with another model under every name or with none that can be read."""

    def __init__(self, made: NamedModel | QuoteError) -> None:
        self._made = made

    def named_model(self, name: str, pointer: str = "/model") -> NamedModel:  # noqa: ARG002  # one for every name
        if isinstance(self._made, QuoteError):
            raise self._made
        return self._made


def refused(shelf: Shelf, kind: type[QuoteError], **asked: Any) -> tuple[str, str]:  # noqa: ANN401  # a question
    with pytest.raises(kind) as caught:
        resolve({**LLAMA, **asked}, shelf)
    (fault,) = caught.value.faults
    return fault.pointer, fault.detail


def test_the_date_of_the_catalog_is_nothing_that_an_engine_would_have_to_know(shelf: Shelf) -> None:
    asked, dated = resolve(LLAMA, shelf), resolve({**LLAMA, "as_of": "2026-11-29"}, shelf)

    assert dated.scenario == asked.scenario
    assert refused(shelf, NotSupported, as_of="2026-11-29", block_tokens=16)[0] == "/block_tokens"


def test_a_model_that_the_catalog_holds_and_nobody_can_read_is_said_to_be_held() -> None:
    reason = UnknownArchitecture.at("/config/model_type", "No reader is called novel.")

    pointer, detail = refused(Holding(reason), UnknownArchitecture)

    assert pointer == "/model"
    assert detail.startswith("The catalog holds llama-2-7b, but no reader")
    assert detail.endswith("No reader is called novel.")


def test_a_model_without_a_cache_has_nothing_that_sequences_fill(shelf: Shelf) -> None:
    block = {"attention": {"replace_with_linear": True}, "ffn": {"no_op": True}}
    config = {"model_type": "nemotron-nas", **SIZES, "torch_dtype": "float16", "block_configs": [block]}
    with pytest.raises(NotSupported, match="keeps no cache") as caught:
        resolve({"config": config, "gpu": "h100-sxm-80gb", "engine": "none"}, shelf)
    assert caught.value.faults[0].pointer == "/config"

    named = shelf.named_model("llama-2-7b")
    bare = replace(named.model, architecture=replace(named.model.architecture, caches=()))
    assert refused(Holding(NamedModel(bare)), NotSupported)[0] == "/model"


@pytest.mark.parametrize("name", ["w4a16", "fp16/w4a16", "w4a16/fp16"])
def test_a_type_that_no_cache_is_kept_in_is_named(shelf: Shelf, name: str) -> None:
    pointer, detail = refused(shelf, NotSupported, kv_dtype=name)

    assert (pointer, detail) == ("/kv_dtype", "w4a16 is not a format that a cache can be quoted in.")


def test_a_cache_of_one_type_twice_is_a_cache_of_that_type(shelf: Shelf) -> None:
    once, twice = (resolve({**LLAMA, "kv_dtype": name}, shelf).scenario for name in ("fp8", "fp8/fp8"))

    assert twice.cache is once.cache


def test_a_model_that_states_no_longest_context_has_to_be_given_one(shelf: Shelf) -> None:
    named = shelf.named_model("llama-2-7b")
    endless = Holding(NamedModel(replace(named.model, context_tokens=None)))

    assert refused(endless, ValidationError)[0] == "/context_tokens"
    assert resolve({**LLAMA, "context_tokens": 123}, endless).scenario.context_tokens == 123
    assert resolve({**LLAMA, "context_limit_tokens": 456}, endless).scenario.context_tokens == 456
