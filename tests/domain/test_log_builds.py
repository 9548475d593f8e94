"""A llama.cpp log is quoted by the build that it prints, and as its attention is fused."""

from typing import Any

import pytest

from service.domain.errors import ValidationError
from service.domain.logs import read
from service.domain.precision import NumberFormat
from tests.domain.test_log_answer import BY_NAME, LLAMA, Cards, answer, part

GIVEN: dict[str, Any] = {"model": LLAMA, "gpu": "rtx-4090", "weight_dtype": "q4_k_m"}
B5600 = BY_NAME["llama.cpp-b5600"].text


class Typed(Cards):
    """Formats as files and engines spell them, and no others."""

    def format(self, name: str, pointer: str = "/weight_dtype") -> NumberFormat:  # type: ignore[override]  # cached there
        try:
            return super().format({"f16": "fp16"}.get(name, name))
        except FileNotFoundError:
            raise ValidationError.at(pointer, f"no {name}") from None


def printing(build: str) -> dict[str, Any]:
    """The answer to the log of b5600 with another build printed in it."""
    return answer(Cards(), B5600.replace("5600", build), **GIVEN)


def test_the_buffer_is_that_of_the_printed_build() -> None:
    found = answer(Cards(), B5600, **GIVEN)

    assert found["question"]["engine_version"] == "b5600"
    assert found["taken"]["engine_version"] == found["taken"]["attention_backend"] == "log"
    assert found["question"]["attention_backend"] == "on"
    assert part(found, "activations")["difference_bytes"] == part(found, "kv_cache")["difference_bytes"] == 0
    assert found["warnings"] == []


def test_layers_on_the_host_are_quoted_as_the_build_keeps_them() -> None:
    given = {"model": "qwen3-30b-a3b", "weight_dtype": "q4_k_m"}

    found = answer(Cards(), BY_NAME["llama.cpp-b7000-partly-on-host"].text, **given)

    assert abs(part(found, "activations")["relative"]) < 0.001
    assert part(found, "kv_cache")["difference_bytes"] == 0


def test_a_log_of_2024_is_quoted_by_its_build() -> None:
    given = GIVEN | {"gpu": "rtx-3090", "context_tokens": 8192, "context_limit_tokens": 8192}
    found = answer(Cards(), BY_NAME["llama.cpp-b3400"].text, **given)

    assert found["question"]["engine_version"] == "b3400"
    assert part(found, "activations")["difference_bytes"] == 0


def test_a_refused_log_is_not_warned_of_what_newer_builds_do() -> None:
    given = {"model": "llama-3.3-70b-instruct", "context_tokens": 4096, "context_limit_tokens": 4096}

    found = answer(Cards(), BY_NAME["llama.cpp-b5200-refused"].text, weight_dtype="q4_k_m", **given)

    assert found["quote"]["question"]["engine_version"] == "b5200"
    assert not any("--fit" in warning for warning in found["quote"]["warnings"])


@pytest.mark.parametrize("build, said", [("900", "older than the oldest"), ("99999", "newer than b11549")])
def test_a_build_beyond_the_rules_is_quoted_with_a_warning(build: str, said: str) -> None:
    found = printing(build)

    assert found["quote"] is not None
    assert [said in warning for warning in found["warnings"]] == [True]


@pytest.mark.parametrize("build", ["0", "1"])
def test_sources_without_history_have_no_build(build: str) -> None:
    found = printing(build)

    assert found["taken"]["engine_version"] != "log"
    assert any("without their history" in warning for warning in found["warnings"])


def test_a_log_without_a_build_is_quoted_with_a_warning() -> None:
    log = "".join(line for line in B5600.splitlines(keepends=True) if not line.startswith("build"))

    assert any("does not say its build" in warning for warning in answer(Cards(), log, **GIVEN)["warnings"])
    assert answer(Cards(), log, engine_version="b5600", **GIVEN)["warnings"] == []


def test_what_is_no_build_is_refused() -> None:
    found = printing("12345678")

    assert found["quote"] is None
    assert [error["pointer"] for error in found["unquoted"]["errors"]] == ["/engine_version"]


@pytest.mark.parametrize("given, warned", [("5600", False), ("B5600", False), ("b5601", True)])
def test_a_build_that_is_given_goes_before_the_printed_one(given: str, warned: bool) -> None:
    found = answer(Cards(), B5600, engine_version=given, **GIVEN)

    assert any("The log says engine_version" in warning for warning in found["warnings"]) == warned


@pytest.mark.parametrize(
    "printed, said", [("1", "on"), ("0", "off"), ("enabled", "on"), ("disabled", "off"), ("auto", None), ("enab", None)]
)
def test_attention_is_fused_as_printed(printed: str, said: str | None) -> None:
    reading = read(B5600.replace("flash_attn    = 1", f"flash_attn    = {printed}").splitlines(keepends=True))

    assert (reading.said["attention_backend"].value if "attention_backend" in reading.said else None) == said


@pytest.mark.parametrize("printed, said", [("enabled", "on"), ("disabled", "off")])
def test_what_auto_came_to_is_taken(printed: str, said: str) -> None:
    log = BY_NAME["llama.cpp-b9106-chosen-device"].text.replace("set to enabled", f"set to {printed}")

    assert read(log.splitlines(keepends=True)).said["attention_backend"].value == said


@pytest.mark.parametrize(
    "file, kind",
    [
        ("Meta-Llama-3.1-8B-Instruct-Q8_0.gguf", "q8_0"),
        ("Meta-Llama-3.1-8B-Instruct-UD-Q5_K_S-00001-of-00002.gguf", "q5_k_s"),
        ("Meta-Llama-3.1-8B-Instruct-F16.gguf", "fp16"),
        ("models--owner--Some-GGUF/snapshots/0a/Some-Q6_K.gguf", "q6_k"),
    ],
)
def test_weights_are_of_the_type_that_the_file_says_beside_a_model_that_is_given(file: str, kind: str) -> None:
    log = B5600.replace("Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf", file)

    found = answer(Typed(), log, model=LLAMA, gpu="rtx-4090")

    assert (found["question"]["weight_dtype"], found["taken"]["weight_dtype"]) == (kind, "log")
    given = answer(Typed(), log, **GIVEN)
    assert given["question"]["weight_dtype"] == "q4_k_m"


def test_a_file_of_a_type_that_is_not_known_is_not_quoted_as_published() -> None:
    log = B5600.replace("Instruct-Q4_K_M.gguf", "Instruct-UD-Q4_K_XL.gguf")

    found = answer(Typed(), log, model=LLAMA, gpu="rtx-4090")

    assert found["quote"] is None
    assert [error["pointer"] for error in found["unquoted"]["errors"]] == ["/weight_dtype"]
