"""A config and its files' headers become the facts of an entry: weights are what the files hold."""

from collections.abc import Iterator
from typing import Any

import pytest

from service.domain.catalog import CatalogKind, Entry
from service.domain.errors import ConfigError, ValidationError
from service.domain.files import Tensor
from service.domain.files.index import Index
from service.domain.importing import Checkpoint, Naming
from service.domain.model import from_facts
from service.domain.precision import NumberFormat
from service.domain.stored import weights_for
from service.domain.weights import whole_model
from tests.domain.conftest import Shelf, entry
from tests.domain.test_stored import LLAMA_8B

NAMING = Naming(hub_id="Owner/A-Model-hf", checked="2026-12-01")
TINY: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 1000,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
    "max_position_embeddings": 2048,
}
# Attention, MLP and norms of a layer, the last norm, the table.
LAYERS, NORM, TABLE = 2 * (4 * 256 * 256 + 3 * 256 * 512 + 2 * 256), 256, 1000 * 256


def tensors(rows: int = 1000, *, head: bool = False, kind: str = "BF16", bytes_each: int = 2) -> Iterator[Tensor]:
    """The tiny model's tensors, its table padded to so many rows; all of a layer as one."""
    layers = ((f"layers.{layer}.mlp.all", LAYERS // 2) for layer in range(2))
    for name, elements in (("embed_tokens.weight", rows * 256), *layers, ("norm.weight", NORM)):
        yield Tensor(f"model.{name}", kind, elements, bytes_each * elements)
    if head:
        yield Tensor("lm_head.weight", kind, rows * 256, bytes_each * rows * 256)


def imported(shelf: Shelf, config: dict[str, Any], *headers: Iterator[Tensor], index: Index | None = None) -> Any:  # noqa: ANN401  # facts
    checkpoint = Checkpoint(config, shelf)
    for number, header in enumerate(headers):
        checkpoint.add_tensors(header, f"/safetensors_header/{number}")
    if index is not None:
        checkpoint.set_index(index, "/safetensors_index")
    return checkpoint.facts(NAMING)


def test_a_config_alone_is_counted(shelf: Shelf) -> None:
    facts = imported(shelf, TINY)

    assert facts["checkpoint"] == {
        "dtype": "bf16",
        "dtype_source": "config",
        "weight_bytes": None,
        "weight_bytes_estimate": 2 * (LAYERS + NORM + TABLE),
    }
    assert facts["parameters"]["count"] == LAYERS + NORM + TABLE
    assert (facts["id"], facts["name"], facts["family"]) == ("a-model", "A-Model-hf", "llama")


def test_a_padded_vocabulary_is_what_the_file_holds(shelf: Shelf) -> None:
    checkpoint = imported(shelf, TINY, tensors(1024))["checkpoint"]

    assert checkpoint["weight_bytes"] == 2 * (LAYERS + NORM + 1024 * 256)
    assert checkpoint["bytes_by_type"] == {"BF16": checkpoint["weight_bytes"]}


def test_a_tied_head_that_is_stored_counts_and_is_said(shelf: Shelf) -> None:
    facts = imported(shelf, TINY, tensors(head=True))

    assert facts["checkpoint"]["weight_bytes"] == 2 * (LAYERS + NORM + 2 * TABLE)
    assert "stored though it is tied" in facts["provenance"]["notes"]


def test_a_file_knows_its_type_better_than_the_config(shelf: Shelf) -> None:
    facts = imported(shelf, TINY, tensors(kind="F32", bytes_each=4))

    assert (facts["checkpoint"]["dtype"], facts["checkpoint"]["dtype_source"]) == ("fp32", "published")


def test_the_headers_of_several_files_are_added_up(shelf: Shelf) -> None:
    whole = list(tensors())

    facts = imported(shelf, TINY, iter(whole[:1]), iter(whole[1:]))

    assert facts["checkpoint"]["weight_bytes"] == 2 * (LAYERS + NORM + TABLE)


def test_a_part_of_a_checkpoint_is_refused_by_its_header(shelf: Shelf) -> None:
    with pytest.raises(ValidationError) as caught:
        imported(shelf, TINY, iter(list(tensors())[:1]))

    assert caught.value.faults[0].pointer == "/safetensors_header/0"
    assert "not the whole of it" in caught.value.detail


def test_an_index_is_its_total(shelf: Shelf) -> None:
    total = 2 * (LAYERS + NORM + TABLE)

    assert imported(shelf, TINY, index=Index(total, 20))["checkpoint"]["weight_bytes"] == total


def test_prediction_layers_are_kept_apart(shelf: Shelf) -> None:
    config = entry(CatalogKind.MODEL, "deepseek-v3").facts["config"]
    extra = Tensor("model.layers.61.mlp.all", "F8_E4M3", 11_500_000_000, 11_500_000_000)
    main = Tensor("model.layers.60.mlp.all", "F8_E4M3", 673_150_611_808, 673_150_611_808)
    others = [Tensor(f"model.layers.{layer}.norm", "F32", 0, 0) for layer in range(60)]

    facts = imported(shelf, config, iter([*others, main, extra]))

    assert facts["checkpoint"]["weight_bytes"] == 673_150_611_808
    assert "11,500,000,000 bytes more, are kept apart" in facts["provenance"]["notes"]


def test_the_share_of_prediction_layers_is_taken_off_an_index(shelf: Shelf) -> None:
    config = entry(CatalogKind.MODEL, "deepseek-v3").facts["config"]

    facts = imported(shelf, config, index=Index(688_574_839_360, 91_991, predicts=True))

    assert facts["checkpoint"]["weight_bytes"] == pytest.approx(673_150_611_808, rel=0.001)


def test_a_gguf_file_is_of_the_type_it_says(shelf: Shelf) -> None:
    checkpoint = Checkpoint(LLAMA_8B, shelf)
    checkpoint.add_tensors(iter([Tensor("all", "Q4_K", 8_030_261_248, 4_912_898_304)]), "/gguf_header", "q4_k_m")
    facts = checkpoint.facts(NAMING)

    assert (facts["checkpoint"]["dtype"], facts["checkpoint"]["weight_bytes"]) == ("q4_k_m", 4_912_898_304)


def test_a_gguf_file_of_a_type_without_name_is_of_what_most_of_it_is(shelf: Shelf) -> None:
    checkpoint = Checkpoint(LLAMA_8B, shelf)
    checkpoint.add_tensors(iter([Tensor("all", "Q6_K", 8_030_261_248, 6_590_000_000)]), "/gguf_header")

    assert checkpoint.facts(NAMING)["checkpoint"]["dtype"] == "q6_k"


def test_what_was_imported_is_what_quotes_hold(shelf: Shelf) -> None:
    facts = imported(shelf, TINY, tensors(1024, head=True))
    model = from_facts(Entry(CatalogKind.MODEL, facts["id"], facts, 1))

    held = {
        name: whole_model(model.architecture, weights_for(shelf.format(name), model, shelf)).bytes
        for name in ("bf16", "fp32")
    }

    assert held == {"bf16": facts["checkpoint"]["weight_bytes"], "fp32": 4 * facts["parameters"]["count"]}


def test_a_config_that_cannot_be_is_refused_by_its_field(shelf: Shelf) -> None:
    with pytest.raises(ConfigError) as caught:
        imported(shelf, {**TINY, "num_hidden_layers": 0})

    assert caught.value.faults[0].pointer == "/config/num_hidden_layers"


@pytest.mark.parametrize("prefix", ["model.layers", "blk"])
def test_a_header_without_some_of_the_layers_is_refused(shelf: Shelf, prefix: str) -> None:
    lacking = (Tensor(t.name.replace("model.layers", prefix), t.type, t.elements, t.bytes) for t in tensors())

    with pytest.raises(ValidationError, match="nothing of 1 of 2 layers, the first of them 1"):
        imported(shelf, TINY, (tensor for tensor in lacking if ".1." not in tensor.name))


def test_the_same_header_twice_is_no_second_file(shelf: Shelf) -> None:
    with pytest.raises(ValidationError) as caught:
        imported(shelf, TINY, tensors(), tensors())

    (fault,) = caught.value.faults
    assert fault.pointer == "/safetensors_header/1"
    assert "are those of /safetensors_header/0" in fault.detail


def test_a_type_that_the_catalog_does_not_know_gives_way_to_the_next_word_for_it(shelf: Shelf) -> None:
    class Knowing(Shelf):
        def format(self, name: str, pointer: str = "") -> NumberFormat:  # type: ignore[override]  # not kept
            if name == "fp99":
                raise ValidationError.at(pointer, "no fp99")
            return shelf.format(name)

    checkpoint = Checkpoint(TINY, Knowing())
    checkpoint.add_tensors(tensors(), "/gguf_header", "fp99")

    assert checkpoint.facts(NAMING)["checkpoint"]["dtype"] == "bf16"
