"""Commands that scale positions otherwise than the config, and releases that start for less than the model's own."""

import json
from typing import Any

import pytest

from service.answers import fit_answer
from service.domain.engines.vllm.shapes import rotary_elements
from service.domain.errors import NotSupported, QuoteError, ValidationError
from tests.domain.commands.command_cases import catalog

QWEN = "vllm serve Qwen/Qwen3-8B"
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
CONFIG = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
}
TWO_SETS = {**CONFIG, "rope_scaling": {"type": "longrope"}, "original_max_position_embeddings": 4096}
DOTTED = (
    f"{QWEN} --hf-overrides.rope_scaling.rope_type yarn --hf-overrides.rope_scaling.factor 4.0"
    " --hf-overrides.rope_scaling.original_max_position_embeddings 32768"
)
# The whole key of 128 values, for each position.
ROW = 128


def asked(command: str, **beside: object) -> dict[str, Any]:
    return dict(fit_answer({"gpu": "h200-sxm-141gb", "command": command, **beside}, catalog()))


def refused(command: str, **beside: object) -> QuoteError:
    with pytest.raises(QuoteError) as refusal:
        asked(command, **beside)
    return refusal.value


def overriding(**overrides: object) -> str:
    return f"{QWEN} --hf-overrides '{json.dumps(overrides)}'"


def limit(answer: dict[str, Any]) -> tuple[int, str]:
    return answer["question"]["context_limit_tokens"], answer["taken"]["context_limit_tokens"]


@pytest.mark.parametrize(
    "command",
    [
        f"{QWEN} --rope-scaling '{json.dumps(YARN)}'",
        overriding(rope_scaling=YARN),
        overriding(rope_parameters={**YARN, "rope_theta": 1e6}, rope_theta=1e6),
        DOTTED,
    ],
)
def test_yarn_multiplies_what_the_model_was_trained_for(command: str) -> None:
    answer = asked(command, engine_version="0.11.0")

    assert limit(answer) == (131_072, "derived")
    assert any("scaled by yarn, and the longest sequence is 131,072 tokens" in note for note in answer["assumptions"])


def test_the_tables_are_as_long_as_the_scaled_positions() -> None:
    plain = asked(QWEN, engine_version="0.11.0", context_tokens=4096, context_limit_tokens=40960)
    scaled = asked(
        overriding(rope_scaling=YARN), engine_version="0.11.0", context_tokens=4096, context_limit_tokens=40960
    )
    longer = rotary_elements(catalog().model("qwen3-8b").architecture, 4)

    assert longer == 40_960 * ROW
    assert weights(scaled) - weights(plain) == (131_072 - 40_960) * ROW * 2


def weights(answer: dict[str, Any]) -> int:
    return sum(part["bytes"] for part in answer["ledger"]["parts"] if part["name"] == "weights")


def test_a_newer_release_takes_the_positions_of_the_config_to_be_scaled() -> None:
    """0.30.0 no longer multiplies: what is longer than the config's positions does not start."""
    answer = asked(overriding(rope_scaling=YARN) + " --max-model-len 131072", engine_version="0.30.0")

    assert any("does not start for them unless" in warning for warning in answer["warnings"])
    assert any("whatever the factor" in note for note in answer["assumptions"])

    given = asked(overriding(rope_scaling=YARN, max_position_embeddings=131_072), engine_version="0.30.0")
    assert limit(given) == (131_072, "derived")
    assert given["warnings"] == []


@pytest.mark.parametrize("kind, longest", [("linear", 81_920), ("dynamic", 81_920), ("llama3", 40_960)])
def test_other_scalings_multiply_the_positions_or_leave_them(kind: str, longest: int) -> None:
    assert limit(asked(overriding(rope_scaling={"rope_type": kind, "factor": 2.0})))[0] == longest


def test_positions_alone_are_the_longest() -> None:
    assert limit(asked(overriding(max_position_embeddings=65_536)))[0] == 65_536


def test_a_config_is_scaled_as_a_model_of_the_catalog_is() -> None:
    command = "vllm serve /models/own --hf-overrides.rope_scaling.type linear --hf-overrides.rope_scaling.factor 2"

    assert limit(asked(command, config=CONFIG))[0] == 16_384


@pytest.mark.parametrize(
    "overrides, kind, said",
    [
        ({"num_hidden_layers": 4}, NotSupported, "give the overridden config as config"),
        ({"rope_scaling": {"rope_type": "longrope"}}, NotSupported, "rope_type 'longrope' is not modelled"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, ValidationError, "needs original_max_position"),
        ({"rope_scaling": {**YARN, "factor": 0.5}}, ValidationError, "needs a factor from 1"),
        ({"rope_scaling": {**YARN, "rope_type": "linear"}}, NotSupported, "beside original_max_position_embeddings"),
        ({"rope_scaling": {**YARN, "factor": True}}, ValidationError, "needs a factor from 1"),
        ({"rope_scaling": [4]}, ValidationError, "needs a JSON object"),
        ({"max_position_embeddings": -5}, ValidationError, "must be from 1"),
        ({"max_position_embeddings": "long"}, ValidationError, "needs a whole number"),
        ({"rope_scaling": YARN, "rope_parameters": {}, "max_position_embeddings": 2**40}, ValidationError, "must be"),
        ({"rope_scaling": YARN, "rope_parameters": {**YARN, "factor": 2.0}}, ValidationError, "set rope_scaling to"),
    ],
)
def test_what_cannot_be_scaled_is_refused(overrides: dict[str, Any], kind: type[QuoteError], said: str) -> None:
    error = refused(overriding(**overrides))

    assert isinstance(error, kind)
    assert said in error.detail


def test_sglang_takes_scaled_positions_from_the_config_alone() -> None:
    """`get_context_length`: a factor counts only where nothing says what the model was trained for."""
    command = "python3 -m sglang.launch_server --model-path Qwen/Qwen3-8B --json-model-override-args "

    assert limit(asked(command + f"'{json.dumps({'rope_scaling': YARN})}'"))[0] == 40_960
    assert limit(asked(command + """'{"rope_scaling":{"type":"linear","factor":2}}'"""))[0] == 81_920
    both = {"rope_scaling": YARN, "max_position_embeddings": 131_072}
    assert limit(asked(command + f"'{json.dumps(both)}'"))[0] == 131_072
    assert "config as config" in refused(command + """'{"architectures":["LlamaForCausalLM"]}'""").detail


def test_a_model_with_two_sets_of_frequencies_starts_for_the_shorter() -> None:
    """Pull request 27431, in releases from 0.11.1 on: 4,096 tokens of phi-3.5, not 131,072."""
    command = "vllm serve /models/own"
    answer = asked(command, config=TWO_SETS, engine_version="0.11.1")

    assert limit(answer) == (4096, "derived")
    assert answer["question"]["context_tokens"] == 4096
    assert any("shorter rotary frequencies, of 8,192" in note for note in answer["assumptions"])
    assert limit(asked(command, config=TWO_SETS, engine_version="0.11.0"))[0] == 8192
    assert limit(asked(command + " --max-model-len 8192", config=TWO_SETS)) == (8192, "command")
    assert limit(asked(command + " --max-model-len auto", config=TWO_SETS))[0] == 4096
    assert (
        "give --max-model-len for sequences of 6,000" in refused(command, config=TWO_SETS, context_tokens=6000).detail
    )


def test_a_config_beside_a_command_says_how_long_it_starts_for() -> None:
    answer = asked("vllm serve /models/own", config=CONFIG, context_tokens=2048)

    assert limit(answer) == (8192, "derived")
