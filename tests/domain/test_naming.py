import pytest

from service.domain.naming import asked_forms, catalog_forms, ending_of, spelt, undated, untuned


@pytest.mark.parametrize(
    "name, form",
    [
        ("llama_3.1 8b", "llama-3.1-8b"),
        ("x-quantized.w8a8", "x-quantized-w8a8"),
        ("x--y_-z", "x-y-z"),
        ("qwen2.5", "qwen2.5"),
        ("x-q4_k_m.gguf", "x-q4-k-m-gguf"),
        (".x.", "x"),
    ],
)
def test_separators_are_one_hyphen_and_decimals_keep_their_dot(name: str, form: str) -> None:
    assert spelt(name) == form


def test_a_version_may_lose_its_dot_and_a_size_may_not() -> None:
    assert "llama-3-1-8b" in catalog_forms("meta/llama-3.1-8b")
    assert "mamba-2-8b" not in catalog_forms("mamba-2.8b")
    assert "qwen2-5-0.5b" in catalog_forms("qwen2.5-0.5b")


def test_an_underscore_between_digits_may_be_asked_as_a_dot() -> None:
    assert "x-1.6b" in catalog_forms("x-1_6b")


def test_a_catalog_name_is_known_with_its_owner_joined_on() -> None:
    assert {"qwen-qwen3-8b", "qwen3-8b"} <= catalog_forms("qwen/qwen3-8b")


def test_a_converted_checkpoint_and_a_vendors_prefix_are_left_out() -> None:
    assert asked_forms("Meta-Llama-2-7b-HF".casefold()) == ("meta-llama-2-7b-hf", "meta-llama-2-7b", "llama-2-7b")


@pytest.mark.parametrize(
    "form, stem, weights, cache",
    [
        ("x-awq", "x", "awq", None),
        ("x-gptq-int4", "x", "gptq", None),
        ("x-fp8-kv", "x", "fp8", "fp8"),
        ("x-fp8-dynamic", "x", "fp8", None),
        ("x-quantized-w4a16", "x", "w4a16", None),
        ("x-unsloth-bnb-4bit", "x", "nf4", None),
        ("x-qat-q4-0", "x", "q4_0", None),
        ("x-q4-k-m-gguf", "x", "q4_k_m", None),
        ("x-gguf", "x", None, None),
        ("x-awq-fp8", "x-awq", "fp8", None),
    ],
)
def test_the_longest_ending_says_the_format(form: str, stem: str, weights: str | None, cache: str | None) -> None:
    found = ending_of(form)

    assert found
    assert (found[0], found[1].weight_dtype, found[1].kv_dtype) == (stem, weights, cache)


@pytest.mark.parametrize(
    "form, weights", [("x-nvfp4-v2", "nvfp4"), ("x-fp4-v2", "nvfp4"), ("x-gptq-int4-v12", "gptq"), ("x-gguf-v2", None)]
)
def test_a_version_behind_a_format_is_one_of_the_quantized_files(form: str, weights: str | None) -> None:
    found = ending_of(form)

    assert found
    assert (found[0], found[1].weight_dtype) == ("x", weights)
    assert "this version of the quantized files" in str(found[1].remark)


def test_a_version_before_a_format_is_the_models_own() -> None:
    found = ending_of("x-v2-fp8")

    assert found
    assert (found[0], found[1].remark) == ("x-v2", None)


@pytest.mark.parametrize("form", ["x-v2", "x-bf16-v2", "x-gptq-int4-v100", "x-v2-v3", "nvfp4-v2", "x-nvfp4-v2-merge"])
def test_a_version_behind_anything_else_is_the_models_own(form: str) -> None:
    assert ending_of(form) is None


@pytest.mark.parametrize("form", ["x", "awq", "x-awqed", "awq-x", "x-pruned", "x-int4-merge", "x-fp8-kv2"])
def test_half_an_ending_is_none(form: str) -> None:
    assert ending_of(form) is None


@pytest.mark.parametrize("text", ["int8", "8bit", "4bit", "fp8-w8a16"])
def test_an_ending_that_leaves_the_format_open_says_why(text: str) -> None:
    found = ending_of(f"x-{text}")

    assert found
    assert found[1].refusal


def test_one_tuning_word_is_taken_out_wherever_it_stands() -> None:
    assert untuned("mistral-7b-instruct-v0.3") == (("mistral-7b-v0.3", "instruct"),)
    assert untuned("qwen3-8b-base") == (("qwen3-8b", "base"),)


def test_a_name_with_two_tuning_words_or_none_is_left_alone() -> None:
    assert untuned("ernie-base-pt") == ()
    assert untuned("qwen3-8b") == ()
    assert untuned("chat-8b") == ()


@pytest.mark.parametrize(
    "form, stem",
    [("x-2407", "x"), ("x-08-2024", "x"), ("x-v0.1", "x"), ("x-v01", "x"), ("x-v2", None), ("x-7b", None), ("x", None)],
)
def test_a_revision_is_a_date_or_a_version_at_the_end(form: str, stem: str | None) -> None:
    assert undated(form) == stem


@pytest.mark.parametrize("name, derived", [("x-7b-fp8", True), ("x-7b-q4-k-m", True), ("x-7b-bf16", False)])
def test_a_checkpoint_in_16_bits_is_the_original(name: str, derived: bool) -> None:
    found = ending_of(spelt(name))

    assert found is not None
    assert found[1].derived is derived
