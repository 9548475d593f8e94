"""A sample of families is built by the model code itself, without weights: its counts and its cache are ours."""

import json
from pathlib import Path

import pytest

from tests import oracle
from tests.domain.configs.published import named

# The first import of transformers alone may take minutes on a busy machine, and cut short it is left half done for all.
pytestmark = pytest.mark.timeout(600)

SAMPLE = (
    "meta-llama/Llama-3.2-1B-Instruct",
    "mistralai/Mistral-7B-v0.1",
    "Qwen/Qwen2.5-0.5B",
    "Qwen/Qwen3-30B-A3B",
    "mistralai/Mixtral-8x7B-v0.1",
    "google/gemma-2-2b",
    "openai/gpt-oss-20b",
    "microsoft/phi-2",
    "openai-community/gpt2-xl",
    "facebook/opt-1.3b",
    "bigscience/bloom-560m",
    "EleutherAI/gpt-neo-1.3B",
    "CohereLabs/c4ai-command-r7b-12-2024",
    "allenai/Olmo-3-7B-Instruct",
    "XiaomiMiMo/MiMo-V2-Flash",
    "baidu/ERNIE-4.5-21B-A3B-PT",
    "poolside/Laguna-XS.2",
    "meta-models/Muse-Glimmer-30B",
    "zai-org/GLM-OCR",
    "CohereLabs/North-Mini-Code-1.0",
    "transformers/inkling_text",
    "transformers/apertus1p5-small",
    "transformers/idefics2",
)


@pytest.mark.parametrize("model", SAMPLE)
def test_the_model_code_counts_and_caches_the_same(model: str) -> None:
    ours, theirs = oracle.compare(named(model))

    assert (ours.parameters, ours.cache_bytes) == (theirs.parameters, theirs.cache_bytes)


def test_the_command_tells_a_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(named("openai-community/gpt2-xl")))
    monkeypatch.setattr(
        oracle, "theirs", lambda _config, attention: oracle.Figures(1, {4096: 2} if attention else None)
    )

    assert oracle.main([str(file)]) == 1
    assert capsys.readouterr().out.count("DIFFERS") == 2


def test_the_command_is_content_where_nothing_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(named("openai-community/gpt2-xl")))

    assert oracle.main([str(file)]) == 0
    assert "DIFFERS" not in capsys.readouterr().out
