"""What a log says beside the quote of the question that it implies."""

from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from service.domain import engines
from service.domain.catalog import CatalogKind, Entry
from service.domain.errors import NotSupported, UnknownGpu, UnknownModel
from service.domain.gpu import Gpu
from service.domain.log_answer import log_answer
from service.domain.logs import read
from service.domain.naming import NamedModel
from service.domain.precision import NumberFormat
from service.storage.catalog_yaml import read_yaml
from tests.domain.conftest import CATALOG, Shelf, entry
from tests.domain.logs.samples import SAMPLES

if TYPE_CHECKING:
    from service.domain.engines import Engine

BY_NAME = {sample.name: sample for sample in SAMPLES}
LLAMA = "llama-3.1-8b-instruct"
NAMES = {
    "qwen3-8b": "qwen3-8b",
    "llama-2-7b": "llama-2-7b",
    "meta-llama/Llama-3.1-8B-Instruct": LLAMA,
    "Meta-Llama-3.1-8B-Instruct-Q4_K_M": LLAMA,
    LLAMA: LLAMA,
    "Qwen/Qwen3-30B-A3B-FP8": "qwen3-30b-a3b-fp8",
    **{name: name for name in ("gemma-3-27b-it", "granite-4.1-8b", "llama-3.3-70b-instruct", "qwen3-30b-a3b")},
}
CARDS = {
    # The catalog has no such card; another stands for it.
    "AMD Radeon RX 9070 XT": "rx-7900-xtx",
    "NVIDIA GeForce RTX 3060": "rtx-3060-12gb",
    "NVIDIA GeForce RTX 3090": "rtx-3090",
    "NVIDIA GeForce RTX 4090": "rtx-4090",
    "NVIDIA H200": "h200-sxm-141gb",
    "NVIDIA RTX A6000": "rtx-a6000",
}
CONFIG = (
    "Initializing a V1 LLM engine (v0.19.0) with config: model='meta-llama/Llama-3.1-8B-Instruct',"
    " max_seq_len=8192, tensor_parallel_size={tensor}, pipeline_parallel_size=1, data_parallel_size=1, seed=0, a=1, b=2"
)


class Names(Shelf):
    """Answers to the names that logs print, and reads engines with their flags."""

    def named_model(self, name: str, pointer: str = "/model") -> NamedModel:
        if name not in NAMES:
            raise UnknownModel.at(pointer, f"no {name}")
        return NamedModel(self.model(NAMES[name]))

    @cache  # noqa: B019  # one shelf lives as long as the tests
    def engine(self, name: str) -> "Engine":
        flags = CATALOG / "engines" / "flags" / f"{name}.yaml"
        if not flags.exists() and name != "none":
            raise NotSupported.at("/engine", f"no {name}")
        facts = dict(entry(CatalogKind.ENGINE, name).facts)
        if flags.exists():
            facts["flags"] = read_yaml(flags)
        return engines.from_facts(Entry(CatalogKind.ENGINE, name, facts, 1))


class Cards(Names):
    """Answers to what drivers call cards, and to no other name."""

    def gpu(self, name: str, pointer: str = "/gpu") -> Gpu:  # type: ignore[override]  # the shelf's own is cached
        try:
            return super().gpu(CARDS.get(name, name), pointer)
        except FileNotFoundError:
            raise UnknownGpu.at(pointer, f"no {name}") from None


@pytest.fixture(scope="module")
def names() -> Names:
    return Names()


@pytest.fixture(scope="module")
def drivers() -> Cards:
    return Cards()


def answer(names: Names, log: str, **given: Any) -> dict[str, Any]:  # noqa: ANN401
    return log_answer(read(log.splitlines(keepends=True)), given, names)


def part(found: dict[str, Any], name: str) -> dict[str, Any]:
    rows: list[dict[str, Any]] = found["comparison"]
    return next(row for row in rows if row["part"] == name)


def test_it_works(names: Names) -> None:
    found = answer(names, BY_NAME["vllm-0.11.0-journald-colours"].text, gpu="h100-sxm-80gb")

    assert found["unquoted"] is None
    assert found["taken"]["context_tokens"] == "log"
    assert found["taken"]["gpu"] == "request"
    assert abs(part(found, "weights")["relative"]) < 0.001


def test_what_is_given_goes_before_the_log(names: Names) -> None:
    found = answer(names, BY_NAME["vllm-0.11.0-journald-colours"].text, gpu="h100-sxm-80gb", memory_utilization=0.5)

    assert found["question"]["memory_utilization"] == 0.5
    assert found["taken"]["memory_utilization"] == "request"
    assert [warning for warning in found["warnings"] if "is given as" in warning] == [
        "The log says memory_utilization 0.95, and memory_utilization is given as 0.5: the given one is quoted."
    ]


@pytest.mark.parametrize(
    "given, warned",
    [
        ({"model": LLAMA}, False),
        ({"model": "meta-llama/Llama-3.1-8B-Instruct"}, False),
        ({"model": "llama-2-7b"}, True),
        ({"model": "qwen3-8b"}, True),
        ({"engine_version": "v0.11.0"}, False),
        ({"engine_version": "0.19.0"}, True),
        ({"context_tokens": 1024}, False),
        ({"context_limit_tokens": 1024}, True),
        ({"tensor_parallel": 2}, True),
    ],
)
def test_what_is_given_otherwise_than_the_log_says_is_warned_of(
    names: Names, given: dict[str, Any], warned: bool
) -> None:
    found = answer(names, BY_NAME["vllm-0.11.0-journald-colours"].text, gpu="h100-sxm-80gb", **given)

    assert any("is given as" in warning for warning in found["warnings"]) == warned


EXPERTS = BY_NAME["vllm-0.19.1-experts-tp2"].text
ON_START = (
    "(Worker_TP0 pid=71) INFO 05-19 02:12:15 [gpu_worker.py:600] Free memory on device (138.9/139.81 GiB) on startup."
    " Desired GPU memory utilization is (0.9, 125.83 GiB). Actual usage is 14.6 GiB for weight, 2.9 GiB for peak"
    " activation, 2.1 GiB for non-torch memory, and 0.0 GiB for CUDAGraph memory. Replace gpu_memory_utilization config"
    " with `--kv-cache-memory=1` (1.0 GiB) to fit into requested memory, or `--kv-cache-memory=2` (2.0 GiB) to fully"
    " utilize gpu memory. Current kv cache memory in use is 106.2 GiB.\n"
)


def test_the_card_is_the_one_that_experts_are_configured_for(drivers: Cards) -> None:
    found = answer(drivers, EXPERTS)

    assert found["unquoted"] is None
    assert (found["question"]["gpu"], found["taken"]["gpu"]) == ("NVIDIA H200", "log")
    assert answer(drivers, EXPERTS, gpu="h200-sxm-141gb")["warnings"] == found["warnings"]
    assert any("log says gpu" in warning for warning in answer(drivers, EXPERTS, gpu="rtx-4090")["warnings"])


def test_a_card_that_nobody_knows_is_taken_by_its_memory(drivers: Cards) -> None:
    unknown = EXPERTS.replace("NVIDIA_H200", "NVIDIA_H201")

    found = answer(drivers, unknown + ON_START + ON_START.replace("TP0 pid=71", "TP1 pid=72"))

    assert found["unquoted"] is None
    assert any("NVIDIA H201, which the catalog does not hold" in warning for warning in found["warnings"])
    assert answer(drivers, unknown)["unquoted"]["errors"][0]["pointer"] == "/gpu"


def test_a_model_that_nobody_knows_leaves_the_quote_away(names: Names) -> None:
    found = answer(names, BY_NAME["vllm-0.20.2"].text.replace("Llama", "Lama"), gpu="h100-sxm-80gb")

    assert found["quote"] is None
    assert found["unquoted"]["code"] == "unknown-model"
    assert found["question"]["engine_version"] == "0.20.2"
    assert found["comparison"] == found["counts"] == []


def test_a_config_stands_for_a_model_that_nobody_knows(names: Names) -> None:
    config = {"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32}
    config |= {"num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256}

    found = answer(names, BY_NAME["vllm-0.20.2"].text, gpu="h100-sxm-80gb", config=config)

    assert found["unquoted"] is None
    assert found["question"]["model"] is None


def test_a_number_that_no_question_has_is_not_quoted_without(names: Names) -> None:
    found = answer(names, CONFIG.format(tensor=5000), gpu="h100-sxm-80gb")

    assert found["quote"] is None
    assert found["unquoted"]["errors"][0]["pointer"] == "/tensor_parallel"
    assert answer(names, CONFIG.format(tensor=5000), gpu="h100-sxm-80gb", tensor_parallel=1)["quote"] is not None


TWO_CARDS = BY_NAME["llama.cpp-b6500-windows-two-gpus"].text.replace(
    "CUDA1 (NVIDIA RTX A6000)", "CUDA1 (NVIDIA GeForce RTX 3090)"
)


def test_cards_that_a_log_prints_one_by_one_are_asked_so() -> None:
    found = answer(Cards(), TWO_CARDS, model=LLAMA)

    assert found["question"]["gpus"] == ["NVIDIA RTX A6000", "NVIDIA GeForce RTX 3090"]
    assert found["taken"]["gpus"] == "log"
    assert found["question"]["gpu"] is None
    assert [card["id"] for card in found["quote"]["gpus"]] == ["rtx-a6000", "rtx-3090"]
    assert [round(size / 1e9) for size in found["question"]["gpus_memory_bytes"]] == [51, 25]


def test_cards_of_one_kind_are_counted() -> None:
    found = answer(Cards(), BY_NAME["llama.cpp-b6500-windows-two-gpus"].text, model=LLAMA)

    assert found["quote"]["gpu"]["count"] == 2
    assert found["question"]["gpus"] == ["NVIDIA RTX A6000"] * 2


@pytest.mark.parametrize("given", [{"gpu": "rtx-a6000"}, {"memory_bytes": 48 << 30}])
def test_one_card_that_is_given_stands_for_all_of_the_log(given: dict[str, Any]) -> None:
    found = answer(Cards(), TWO_CARDS, model=LLAMA, **given)

    assert found["question"]["gpus"] is None
    assert found["question"]["gpu_count"] == found["question"]["pipeline_parallel"] == 2
    assert found["unquoted"] is None


def test_cards_that_are_given_go_before_those_of_the_log() -> None:
    cards = ["rtx-a6000", "rtx-3090"]
    assert not any("gpus" in warning for warning in answer(Cards(), TWO_CARDS, model=LLAMA, gpus=cards)["warnings"])

    found = answer(Cards(), TWO_CARDS, model=LLAMA, gpus=cards[::-1])
    assert found["question"]["gpus"] == cards[::-1]
    assert any("The log says gpus" in warning for warning in found["warnings"])


@pytest.mark.parametrize("lost", ["using device CUDA1", "using device CUDA0"])
def test_a_card_whose_line_is_lost_is_not_left_out_of_a_list(lost: str) -> None:
    kept = "".join(line for line in TWO_CARDS.splitlines(keepends=True) if lost not in line)

    assert answer(Cards(), kept, model=LLAMA, gpu="rtx-a6000")["question"]["gpus"] is None


def test_memory_that_is_given_stands_for_the_gpu_of_the_log(names: Names) -> None:
    found = answer(names, BY_NAME["llama.cpp-b5600"].text, memory_bytes=24 << 30)

    assert found["question"]["gpu"] is None
    assert found["quote"]["ledger"]["memory_bytes"] == 24 << 30


def test_llama_cpp_takes_no_more_than_it_is_asked_for(names: Names) -> None:
    found = answer(names, BY_NAME["llama.cpp-b5600"].text, memory_bytes=24 << 30)

    assert part(found, "kv_cache")["difference_bytes"] == 0
    assert found["counts"] == []


def test_an_engine_without_flags_is_read_and_not_quoted(names: Names) -> None:
    found = answer(names, BY_NAME["ollama-0.12"].text, gpu="a10")

    assert found["said"]["kv_capacity_tokens"] == 32768
    assert found["unquoted"]["code"] == "not-supported"


@pytest.mark.parametrize("name", ["sglang-0.4.6", "sglang-0.5.5-tp2-latent", "sglang-0.5.9-windows"])
def test_the_pool_of_sglang_is_that_of_its_rule(names: Names, name: str) -> None:
    assert abs(part(answer(names, BY_NAME[name].text), "kv_cache_from_free_memory")["relative"]) < 0.005


def test_the_pool_of_tensorrt_llm_is_that_of_its_rule(names: Names) -> None:
    found = answer(names, BY_NAME["tensorrt-llm-0.12-engine"].text, memory_utilization=0.9)

    assert abs(part(found, "kv_cache_from_free_memory")["relative"]) < 0.001


def test_attention_in_parallel_is_not_more_replicas(names: Names) -> None:
    args = (
        "server_args=ServerArgs(model_path='deepseek-ai/DeepSeek-V3', tp_size=8, dp_size=8, enable_dp_attention=True)"
    )

    found = answer(names, args, gpu="h200-sxm-141gb")

    assert found["question"]["attention_data_parallel"] == 8
    assert found["question"]["data_parallel"] is None


def test_settings_that_are_not_understood_are_said(names: Names) -> None:
    args = "'model': 'm', 'a': 1, 'speculative_config': {'method': 'mtp'}, 'b': Obj(c=1), 'api_key': 'x'"

    found = answer(names, f"non-default args: {{{args}}}")

    assert any("no setting a" in warning for warning in found["warnings"])
    assert "api_key" not in found["settings"]


SIZES = [1, 2, 4, *range(8, 513, 8)]


def test_sizes_of_graphs_are_asked_as_they_are_printed(names: Names) -> None:
    args = f"'model': '{LLAMA}', 'max_model_len': 4096, 'cudagraph_capture_sizes': {SIZES}"

    found = answer(names, f"vLLM API server version 0.33.0\nnon-default args: {{{args}}}", gpu="h100-sxm-80gb")

    assert (found["unquoted"], found["warnings"]) == (None, [])
    assert found["question"]["graph_sizes"] == SIZES


def test_settings_that_depend_on_what_is_given_are_read_beside_it(names: Names) -> None:
    args = f"'model': '{LLAMA}', 'max_model_len': 4096, 'enable_lora': True, 'fully_sharded_loras': True"
    log = f"vLLM API server version 0.33.0\nnon-default args: {{{args}}}"

    assert answer(names, log, gpu="h100-sxm-80gb")["question"]["fully_sharded_loras"] is False
    given = answer(names, log, gpu="h100-sxm-80gb", tensor_parallel=2)
    assert given["question"]["fully_sharded_loras"] is True


def test_many_settings_that_are_not_understood_are_said_in_one_sentence(names: Names) -> None:
    args = ", ".join(f"'unknown{number}': 1" for number in range(20))

    found = answer(names, f"non-default args: {{{args}, 'note': '{'x' * 500}'}}")

    assert any("and 13 more" in warning for warning in found["warnings"])
    assert len(found["settings"]["note"]) == 200


def test_a_type_by_another_of_its_names_is_no_contradiction() -> None:
    class Spelled(Names):
        def format(self, name: str, pointer: str = "") -> NumberFormat:  # type: ignore[override]  # not kept
            return super().format("fp8" if name == "ptpc_fp8" else name, pointer)

    log = CONFIG.format(tensor=1) + ", kv_cache_dtype=fp8, quantization=fp8"
    warned = {
        given: any(
            "is given as" in warning
            for warning in answer(Spelled(), log, gpu="h100-sxm-80gb", kv_dtype=given)["warnings"]
        )
        for given in ("fp8", "ptpc_fp8", "fp8_e4m3")
    }

    assert warned == {"fp8": False, "ptpc_fp8": False, "fp8_e4m3": True}
