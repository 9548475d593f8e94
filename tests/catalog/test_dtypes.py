"""The number formats: bytes of a linear against the published forms and files, and the names that lead to them."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

import pytest

from service.domain.architecture import ModuleKind
from service.domain.catalog import CatalogKind, Entry
from service.domain.precision import CacheFormat, WeightFormat, from_facts
from tests.catalog.catalog_files import Facts, entries

SHAPES = [(4096, 4096), (1024, 4096), (14336, 4096), (4096, 14336), (576, 7168), (2880, 2880)]
CONTRACT_WEIGHTS = [
    "fp32",
    "bf16",
    "fp16",
    "fp8",
    "fp8_tensor",
    "fp8_block128",
    "w8a8",
    "int8",
    "int4",
    "awq",
    "gptq",
    "w4a16",
    "nf4",
    "nvfp4",
    "mxfp4",
]
CONTRACT_CACHES = [
    "bf16",
    "fp16",
    "fp32",
    "fp8",
    "fp8_e4m3",
    "fp8_e5m2",
    "fp8_ds_mla",
    "int8",
    "int4",
    "nvfp4",
    "q8_0",
    "q4_0",
]


@dataclass(frozen=True)
class Llama:
    """A Llama 3: sizes of its linears as (rows, columns)."""

    width: int
    mlp_width: int
    layers: int

    @property
    def linears(self) -> list[tuple[int, int]]:
        square, kv = (self.width, self.width), (1024, self.width)
        return [square, square, kv, kv, *[(self.mlp_width, self.width)] * 2, (self.width, self.mlp_width)]

    def file_bytes(self, name: str, row_bytes: int, column_bytes: int) -> int:
        """Linears in the format, ends and norms in 16 bits, and what a file adds to each row and column."""
        layer = sum(weight(name).matrix_bytes(*shape, ModuleKind.MLP) for shape in self.linears)
        layer += sum(row_bytes * rows + column_bytes * columns for rows, columns in self.linears)
        return self.layers * layer + 2 * (2 * 128256 + 2 * self.layers + 1) * self.width


LLAMA_8B, LLAMA_70B = Llama(4096, 14336, 32), Llama(8192, 28672, 80)

# Bytes of a linear [o, i] as the reference states them, and the elements of a block a row is made of (GGUF).
FORMS: dict[str, Callable[[int, int], int]] = {
    "fp32": lambda o, i: 4 * o * i,
    "bf16": lambda o, i: 2 * o * i,
    "fp16": lambda o, i: 2 * o * i,
    "int8": lambda o, i: o * i,
    "int4": lambda o, i: o * i // 2,
    "fp8": lambda o, i: o * i + 2 * o,
    "fp8_tensor": lambda o, i: o * i + 4 + 4,
    "fp8_block128": lambda o, i: o * i + 4 * ceil(o / 128) * ceil(i / 128),
    "fp8_block128_bf16": lambda o, i: o * i + 2 * ceil(o / 128) * ceil(i / 128),
    "fp8_block32": lambda o, i: o * i + ceil(o / 32) * ceil(i / 32),
    "mxfp8": lambda o, i: o * i * 33 // 32,
    "w8a8": lambda o, i: o * i + 2 * o,
    "bnb_int8": lambda o, i: o * i + 4 * o,
    "awq": lambda o, i: o * i // 2 + ceil(i / 128) * o // 2 + 2 * ceil(i / 128) * o,
    "gptq": lambda o, i: o * i // 2 + ceil(i / 128) * o // 2 + 2 * ceil(i / 128) * o + 4 * i,
    "w4a16": lambda o, i: o * i // 2 + 2 * ceil(i / 128) * o + 16,
    "nvfp4": lambda o, i: o * i // 2 + o * i // 16 + 8,
    "awq_g64": lambda o, i: o * i // 2 + ceil(i / 64) * o // 2 + 2 * ceil(i / 64) * o,
    "awq_g32": lambda o, i: o * i // 2 + ceil(i / 32) * o // 2 + 2 * ceil(i / 32) * o,
    "gptq_g64": lambda o, i: o * i // 2 + ceil(i / 64) * o // 2 + 2 * ceil(i / 64) * o + 4 * i,
    "gptq_g32": lambda o, i: o * i // 2 + ceil(i / 32) * o // 2 + 2 * ceil(i / 32) * o + 4 * i,
    "gptq_channel": lambda o, i: o * i // 2 + o // 2 + 2 * o + 4 * i,
    "gptq_int8": lambda o, i: o * i + ceil(i / 128) * o + 2 * ceil(i / 128) * o + 4 * i,
    "gptq_int8_g32": lambda o, i: o * i + ceil(i / 32) * o + 2 * ceil(i / 32) * o + 4 * i,
    "gptq_int8_channel": lambda o, i: o * i + o + 2 * o + 4 * i,
    "w4a16_g64": lambda o, i: o * i // 2 + 2 * ceil(i / 64) * o + 16,
    "w4a16_g32": lambda o, i: o * i // 2 + 2 * ceil(i / 32) * o + 16,
    "w4a16_channel": lambda o, i: o * i // 2 + 2 * o + 16,
    "w8a16": lambda o, i: o * i + 2 * o + 16,
    "w8a16_g128": lambda o, i: o * i + 2 * ceil(i / 128) * o + 16,
}
FORMS_OF_EXPERTS: dict[str, Callable[[int, int], int]] = {
    "int4_g32": lambda o, i: o * i // 2 + 2 * o * i // 32,
    "mxfp4": lambda o, i: o * i * 17 // 32,
}
BLOCKS = {
    "q4_0": (32, 18), "q4_1": (32, 20), "q5_0": (32, 22), "q5_1": (32, 24), "q8_0": (32, 34), "q8_1": (32, 36),
    "q1_0": (128, 18), "q2_0": (64, 18), "q2_k": (256, 84), "q3_k": (256, 110), "q4_k": (256, 144), "q5_k": (256, 176),
    "q6_k": (256, 210), "q8_k": (256, 292), "tq1_0": (256, 54), "tq2_0": (256, 66), "iq1_s": (256, 50),
    "iq1_m": (256, 56), "iq2_xxs": (256, 66), "iq2_xs": (256, 74), "iq2_s": (256, 82), "iq3_xxs": (256, 98),
    "iq3_s": (256, 110), "iq4_nl": (32, 18), "iq4_xs": (256, 136), "gguf_mxfp4": (32, 17), "gguf_nvfp4": (64, 36),
}  # fmt: skip


def weight(name: str) -> WeightFormat:
    found = from_facts(Entry(CatalogKind.DTYPE, name, entries("dtype")[name], 1)).weight

    assert found is not None
    return found


def cache(name: str) -> CacheFormat:
    found = from_facts(Entry(CatalogKind.DTYPE, name, entries("dtype")[name], 1)).cache

    assert found is not None
    return found


def spellings(facts: Facts, role: str) -> set[str]:
    """All names of a format in one role."""
    return {facts["id"], *facts["aliases"]} if role in facts["roles"] else set()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", FORMS)
def test_a_linear_takes_the_bytes_of_the_published_form(name: str, shape: tuple[int, int]) -> None:
    assert weight(name).matrix_bytes(*shape, ModuleKind.MLP) == FORMS[name](*shape)


@pytest.mark.parametrize("name", FORMS_OF_EXPERTS)
def test_an_expert_takes_the_bytes_of_the_published_form(name: str) -> None:
    wanted = {shape: FORMS_OF_EXPERTS[name](*shape) for shape in SHAPES}

    assert {shape: weight(name).matrix_bytes(*shape, ModuleKind.EXPERT) for shape in SHAPES} == wanted


@pytest.mark.parametrize("name", FORMS_OF_EXPERTS)
def test_all_but_experts_stay_in_16_bits_where_a_format_is_for_experts(name: str) -> None:
    assert weight(name).matrix_bytes(4096, 4096, ModuleKind.ATTENTION) == 2 * 4096 * 4096


def test_nf4_takes_its_scales_and_their_scales() -> None:
    for rows, columns in SHAPES[:4]:
        n = rows * columns
        assert weight("nf4").matrix_bytes(rows, columns, ModuleKind.MLP) == n // 2 + n // 64 + 4 * n // 16384 + 1088
        assert weight("nf4_single").matrix_bytes(rows, columns, ModuleKind.MLP) == n // 2 + 4 * n // 64


@pytest.mark.parametrize("name", BLOCKS)
def test_a_gguf_row_is_made_of_whole_blocks(name: str) -> None:
    elements, size = BLOCKS[name]

    assert weight(name).matrix_bytes(3, 7 * elements, ModuleKind.ATTENTION) == 3 * 7 * size
    assert weight(name).matrix_bytes(3, 7 * elements, ModuleKind.HEAD) == 3 * 7 * size


def test_every_block_format_is_a_gguf_type() -> None:
    keep_32 = {name for name, of in entries("dtype").items() if of.get("weight", {}).get("rest_bits") == 32}

    assert keep_32 - {"fp32"} == {*BLOCKS}


@pytest.mark.parametrize(
    "name, model, extra, published_bytes",
    [
        ("fp8", LLAMA_8B, (0, 0), 9_083_953_152),
        ("awq", LLAMA_70B, (0, 0), 39_767_785_472),
        ("gptq", LLAMA_8B, (2, 0), 5_735_587_840),  # AutoGPTQ writes a zero bias
        ("w4a16", LLAMA_70B, (0, 4), 39_525_311_232),  # activation ordering writes g_idx
        ("nvfp4", LLAMA_70B, (0, 0), 42_709_045_632),
    ],
)
def test_a_format_gives_a_published_file_to_the_byte(
    name: str, model: Llama, extra: tuple[int, int], published_bytes: int
) -> None:
    assert model.file_bytes(name, *extra) == published_bytes
    assert published_bytes in [of["bytes"] for of in entries("dtype")[name]["evidence"]["checked_against"]]


@pytest.mark.parametrize(
    "name, layers, experts, published_bytes",
    [("gpt-oss-20b", 24, 32, 13_761_264_768), ("gpt-oss-120b", 36, 128, 65_248_815_744)],
)
def test_mxfp4_gives_the_gpt_oss_files_to_the_byte(name: str, layers: int, experts: int, published_bytes: int) -> None:
    width, vocabulary, query, kv = 2880, 201088, 64 * 64, 8 * 64
    matrices = sum(weight("mxfp4").matrix_bytes(rows, width, ModuleKind.EXPERT) for rows in (2 * width, width))
    attention = width * (query + 2 * kv) + query + 2 * kv + query * width + width + 64
    biases_and_router = experts * 3 * width + experts * width + experts
    plain = layers * (attention + biases_and_router + 2 * width) + 2 * vocabulary * width + width

    assert layers * experts * matrices + 2 * plain == published_bytes
    assert entries("model")[name]["checkpoint"]["weight_bytes"] == published_bytes


def test_fp8_blocks_give_the_deepseek_v3_files_to_the_byte() -> None:
    """With the prediction layer, its bf16 eh_proj, and its own copies of embedding and head."""

    def blocks(rows: int, columns: int) -> int:
        return weight("fp8_block128").matrix_bytes(rows, columns, ModuleKind.MLP)

    width = 7168
    latent = blocks(1536, width) + blocks(24576, 1536) + blocks(576, width) + blocks(32768, 512) + blocks(width, 16384)
    layer = latent + 2 * (1536 + 512) + 2 * 2 * width
    expert, dense = (2 * blocks(size, width) + blocks(width, size) for size in (2048, 18432))
    sparse = layer + 257 * expert + 256 * (2 * width + 4)
    ends = 2 * (2 * 129280 * width + width)
    prediction = sparse + ends + 2 * (2 * width * width + 2 * width)

    assert 3 * (layer + dense) + 58 * sparse + ends + prediction == 688_574_839_360


@pytest.mark.parametrize(
    "name, elements, wanted",
    [("fp32", 1024, 4096), ("bf16", 1024, 2048), ("fp16", 1024, 2048), ("fp8", 1024, 1024), ("fp8_e5m2", 1024, 1024),
     ("int8", 1024, 1024), ("int4", 1024, 512), ("nvfp4", 1024, 576), ("q8_0", 1024, 1088), ("q5_1", 1024, 768),
     ("q5_0", 1024, 704), ("q4_1", 1024, 640), ("q4_0", 1024, 576), ("iq4_nl", 1024, 576)],
)  # fmt: skip
def test_a_cache_row_takes_its_bytes(name: str, elements: int, wanted: int) -> None:
    assert cache(name).row_bytes(elements) == wanted


@pytest.mark.parametrize("name, wanted", [("fp8_ds_mla", 656), ("nvfp4_ds_mla", 352)])
def test_a_latent_cache_row_takes_what_the_engine_says(name: str, wanted: int) -> None:
    kv = entries("dtype")[name]["kv"]
    compressed = Fraction(kv["element_bits"]) * 512 + Fraction(kv["group_bits"]) * 512 / kv["group_columns"]

    assert kv["latent_only"]
    assert (compressed + 64 * kv["rope_bits"]) / 8 == wanted


@pytest.mark.parametrize("role, named", [("weight", CONTRACT_WEIGHTS), ("kv", CONTRACT_CACHES)])
def test_the_contract_names_formats_of_the_catalog(role: str, named: list[str]) -> None:
    assert [name for name in named if role not in entries("dtype")[name]["roles"]] == []


@pytest.mark.parametrize("role", ["weight", "kv"])
def test_no_spelling_means_two_formats_in_one_role(role: str) -> None:
    of_role = [facts for facts in entries("dtype").values() if role in facts["roles"]]
    owners = Counter(name.casefold() for facts in of_role for name in spellings(facts, role))

    assert [name for name, count in owners.items() if count > 1] == []


@pytest.mark.parametrize(
    "spelling, role, name",
    [("bfloat16", "weight", "bf16"), ("half", "weight", "fp16"), ("f16", "kv", "fp16"), ("float", "weight", "fp32"),
     ("fp8_e4m3", "weight", "fp8_e4m3"), ("fp8_e4m3", "kv", "fp8_e4m3"), ("bnb_4bit", "weight", "nf4")],
)  # fmt: skip
def test_an_engines_spelling_leads_to_its_format(spelling: str, role: str, name: str) -> None:
    assert spelling in spellings(entries("dtype")[name], role)


def test_plain_formats_and_textbook_widths_hold_for_every_parameter() -> None:
    ideal = {name for name, of in entries("dtype").items() if of.get("weight", {}).get("ideal")}

    assert ideal == {"fp32", "bf16", "fp16", "int8", "int4"}
    assert weight("int4").matrix_bytes(4096, 1, ModuleKind.NORM) == 2048


def test_matmuls_run_in_types_that_devices_have_peaks_for() -> None:
    named = ["fp8", "w8a8", "nvfp4", "awq", "int4", "q4_k", "fp32"]

    assert [weight(name).matmul_types[0] for name in named] == ["fp8", "int8", "fp4", "bf16", "bf16", "fp16", "fp32"]
