"""GGUF file types: the rules that give each tensor its own format, against published sizes."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tests.catalog.catalog_files import Facts, entries

F32_BYTES = 4


@dataclass(frozen=True)
class Shape:
    """A decoder with gated MLPs; `experts` 0 where it is dense, `buffers` weights that a file adds."""

    width: int
    layers: int
    heads: int
    kv_heads: int
    head_size: int
    mlp_width: int
    vocabulary: int
    experts: int = 0
    qk_norms: bool = False
    buffers: int = 0

    @property
    def linears(self) -> dict[str, tuple[int, int]]:
        """Rows and columns by role; experts of a layer are one tensor."""
        query, kv = self.heads * self.head_size, self.kv_heads * self.head_size
        mlp = self.mlp_width * max(self.experts, 1)
        return {
            "attn_q": (query, self.width), "attn_k": (kv, self.width), "attn_v": (kv, self.width),
            "attn_output": (self.width, query), "ffn_gate": (mlp, self.width), "ffn_up": (mlp, self.width),
            "ffn_down": (self.width * max(self.experts, 1), self.mlp_width),
        }  # fmt: skip

    @property
    def kept(self) -> int:
        """Weights that stay in 32 bits: norms, router, buffers."""
        layer = 2 * self.width + self.experts * self.width + 2 * self.head_size * self.qk_norms
        return self.layers * layer + self.width + self.buffers

    @property
    def parameters(self) -> int:
        linears = sum(rows * columns for rows, columns in self.linears.values())
        return self.layers * linears + 2 * self.vocabulary * self.width + self.kept


LLAMA_8B = Shape(4096, 32, 32, 8, 128, 14336, 128256, buffers=64)
QWEN_30B = Shape(2048, 48, 32, 4, 128, 768, 151936, experts=128, qk_norms=True)
MIXES = {name: of for name, of in entries("dtype").items() if "gguf_mix" in of["roles"]}
MEASURED = {n: w for n, of in MIXES.items() if (w := of["evidence"].get("bits_a_weight_of_llama_3_1_8b"))}


def tensor_bytes(kind: str, rows: int, columns: int) -> int:
    facts = entries("dtype")[kind]["weight"]
    groups = rows * -(-columns // facts["group_columns"])
    bits = Fraction(facts["element_bits"]) * rows * columns + Fraction(facts["group_bits"]) * groups

    assert bits % 8 == 0
    return int(bits // 8)


def more_bits(layer: int, layers: int) -> bool:
    eighth = layers // 8
    return layer < eighth or layer >= 7 * layers // 8 or (layer - eighth) % 3 == 2


def holds(rule: Facts, layer: int, shape: Shape) -> bool:
    """Whether a rule's conditions hold; without an importance matrix."""
    shared = shape.heads // shape.kv_heads
    met = {
        "experts": shape.experts == rule.get("experts"),
        "min_queries_per_kv_head": shared >= rule.get("min_queries_per_kv_head", 0),
        "queries_per_kv_head": shared == rule.get("queries_per_kv_head"),
        "model_layers": shape.layers == rule.get("model_layers"),
        "first_layers": layer < rule.get("first_layers", 0),
        "first_share": layer < int(shape.layers * Fraction(rule.get("first_share", 0))),
        "more_bits": more_bits(layer, shape.layers),
        "imatrix": True,
    }
    return all(met[name] for name in rule if name not in {"tensors", "type"})


def tensor_type(mix: Facts, role: str, layer: int, shape: Shape) -> str:
    matching = (rule["type"] for rule in mix["rules"] if role in rule["tensors"] and holds(rule, layer, shape))
    kind: str = next(matching, mix["base"])
    return kind


def file_bytes(name: str, shape: Shape) -> int:
    """Bytes of a file's tensors, with an untied head."""
    mix = MIXES[name]["mix"]
    ends = [tensor_type(mix, "output", 0, shape), mix["base"]]
    total = sum(tensor_bytes(kind, shape.vocabulary, shape.width) for kind in ends) + F32_BYTES * shape.kept
    return total + sum(
        tensor_bytes(tensor_type(mix, role, layer, shape), *size)
        for layer in range(shape.layers)
        for role, size in shape.linears.items()
    )


def rules() -> list[dict[str, Any]]:
    return [rule for of in MIXES.values() for rule in of["mix"]["rules"]]


def test_llama_files_have_the_published_widths_to_four_digits() -> None:
    assert len(MEASURED) == 8
    assert {name: round(file_bytes(name, LLAMA_8B) * 8 / LLAMA_8B.parameters, 4) for name in MEASURED} == MEASURED


def test_a_q4_k_m_llama_has_the_published_bytes() -> None:
    # The published sum leaves out the 64 rotary factors, 256 B.
    assert file_bytes("q4_k_m", LLAMA_8B) - F32_BYTES * LLAMA_8B.buffers == 4_912_898_048


def test_a_q4_k_s_mixture_of_experts_has_the_published_bytes() -> None:
    assert file_bytes("q4_k_s", QWEN_30B) == 17_450_039_296


def test_rules_lead_to_tensor_types_of_the_catalog() -> None:
    named = {rule["type"] for rule in rules()} | {of["mix"]["base"] for of in MIXES.values()}

    assert {kind for kind in named if "weight" not in entries("dtype")[kind]["roles"]} == set()


def test_a_file_type_of_its_own_is_no_weight_format() -> None:
    assert "weight" not in entries("dtype")["q4_k_m"]["roles"]
