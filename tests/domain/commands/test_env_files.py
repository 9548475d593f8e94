"""Files of variables that a command names: what they set is not known here, and that is said."""

import pytest

from service.answers import fit_answer
from tests.domain.commands.command_cases import catalog

IMAGE = "vllm/vllm-openai:v0.19.0 --model Qwen/Qwen3-8B"
BESIDE = {"gpu": "h100-sxm-80gb", "context_tokens": 4096}


def said_of_files(command: str, **beside: str) -> list[str]:
    """The files that the warnings of an answer name, in their order."""
    answer = fit_answer({"command": command, **BESIDE, **beside}, catalog())
    found = [warning for warning in answer["warnings"] if "(--env-file)" in warning]
    assert all("give the variables that matter in the command" in warning for warning in found)
    return [warning.removeprefix("What the file ").partition(" sets ")[0] for warning in found]


@pytest.mark.parametrize(
    "command, files",
    [
        (f"docker run --gpus all --env-file vllm.env {IMAGE}", ["vllm.env"]),
        (f"docker run --env-file=a.env -e HF_TOKEN --env-file b.env {IMAGE}", ["a.env", "b.env"]),
        (f"docker run --env-file a.env --env-file a.env {IMAGE}", ["a.env"]),
        ("apptainer run --nv --env-file v.env docker://vllm/vllm-openai:v0.19.0 --model Qwen/Qwen3-8B", ["v.env"]),
        ("uv run --env-file .env -- vllm serve Qwen/Qwen3-8B", [".env"]),
        ("ssh host 'docker run --env-file h.env vllm/vllm-openai:v0.19.0 Qwen/Qwen3-8B'", ["h.env"]),
        (f"docker run -d --env-file db.env postgres; docker run {IMAGE}", []),
        (f"docker run --env-file= {IMAGE}", []),
        (f"docker run -e VLLM_LOGGING_LEVEL=DEBUG {IMAGE}", []),
    ],
)
def test_a_file_of_variables_is_warned_of(command: str, files: list[str]) -> None:
    assert said_of_files(command) == files


def test_so_is_that_of_an_image_that_does_not_say_its_engine() -> None:
    command = "docker run --env-file own.env registry.example.org/llm:v3 --model Qwen/Qwen3-8B"
    assert said_of_files(command, engine="vllm") == ["own.env"]
