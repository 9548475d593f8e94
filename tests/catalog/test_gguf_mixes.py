"""GGUF file types: the rules that give each tensor its own format, against published sizes."""

from typing import Any

from service.domain.catalog import CatalogKind, Entry
from service.domain.model import Model, from_config, from_facts
from service.domain.precision import NumberFormat
from service.domain.precision import from_facts as format_from_facts
from service.domain.stored import weights_for
from service.domain.weights import whole_model
from tests.catalog.catalog_files import entries

MIXES = {name: of for name, of in entries("dtype").items() if "gguf_mix" in of["roles"]}
MEASURED = {n: w for n, of in MIXES.items() if (w := of["evidence"].get("bits_a_weight_of_llama_3_1_8b"))}
# The file holds the 64 factors of the rotary embedding beside the parameters, in 32 bits.
BUFFERS, BUFFER_BYTES = 64, 256
LLAMA_8B = from_config(
    {
        "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256, "tie_word_embeddings": False,
    }
)  # fmt: skip
QWEN_30B = from_facts(Entry(CatalogKind.MODEL, "qwen3-30b-a3b", entries("model")["qwen3-30b-a3b"], 1))


class Formats:
    """The files' formats by id."""

    revision = 1

    def format(self, name: str, pointer: str = "") -> NumberFormat:  # noqa: ARG002  # as the protocol
        return format_from_facts(Entry(CatalogKind.DTYPE, name, entries("dtype")[name], 1))


def file_bytes(name: str, model: Model) -> int:
    formats = Formats()
    return whole_model(model.architecture, weights_for(formats.format(name), model, formats)).bytes


def rules() -> list[dict[str, Any]]:
    return [rule for of in MIXES.values() for rule in of["mix"]["rules"]]


def test_llama_files_have_the_published_widths_to_four_digits() -> None:
    count = LLAMA_8B.architecture.parameters + BUFFERS

    assert len(MEASURED) == 8
    assert {n: round((file_bytes(n, LLAMA_8B) + BUFFER_BYTES) * 8 / count, 4) for n in MEASURED} == MEASURED


def test_a_q4_k_m_llama_has_the_published_bytes() -> None:
    # The published sum leaves out the rotary factors.
    assert file_bytes("q4_k_m", LLAMA_8B) == 4_912_898_048


def test_a_q4_k_s_mixture_of_experts_has_the_published_bytes() -> None:
    assert file_bytes("q4_k_s", QWEN_30B) == 17_450_039_296


def test_rules_lead_to_tensor_types_of_the_catalog() -> None:
    named = {rule["type"] for rule in rules()} | {of["mix"]["base"] for of in MIXES.values()}

    assert {kind for kind in named if "weight" not in entries("dtype")[kind]["roles"]} == set()


def test_rows_fall_back_to_shorter_blocks_and_at_last_to_16_bits() -> None:
    weights = {name: of["weight"] for name, of in entries("dtype").items() if "weight" in of["roles"]}
    falling = {name: of["fallback"] for name, of in weights.items() if "fallback" in of}
    columns = {name: of.get("group_columns", 1) for name, of in weights.items()}

    assert len(falling) == 23
    assert {columns[to] < columns[name] for name, to in falling.items()} == {True}
    assert set(falling.values()) - set(falling) == {"fp16"}


def test_a_file_type_of_its_own_is_no_weight_format() -> None:
    assert "weight" not in entries("dtype")["q4_k_m"]["roles"]
