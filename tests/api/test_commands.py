"""A question by `command`, over HTTP: both methods, both forms, and its limits."""

import json
from typing import TYPE_CHECKING

import pytest

from service.api import limits
from service.api.schemas.quote_parts import UnderstoodCommand
from tests.api.asking import pointers, problem

if TYPE_CHECKING:
    from flask.testing import FlaskClient

COMMAND = "vllm serve meta-llama/Llama-3.1-8B-Instruct -tp 2 --max-model-len 8192 --port 8000"
WORDS = COMMAND.split()
QUESTION = {"command": COMMAND, "gpu": "h100-sxm-80gb"}
PATHS = ["/fit", "/traffic"]


@pytest.mark.parametrize("path", PATHS)
def test_it_works(client: "FlaskClient", path: str) -> None:
    answer = client.get(path, query_string=QUESTION)

    assert answer.status_code == 200
    assert answer.get_json()["command"] == {
        "engine": "vllm",
        "program": "vllm serve",
        "ignored": ["--port"],
        "set": {
            "context_limit_tokens": 8192,
            "model": "meta-llama/Llama-3.1-8B-Instruct",
            "tensor_parallel": 2,
        },
    }
    assert answer.get_json()["question"]["command"] == COMMAND
    assert answer.get_json()["taken"]["command"] == "request"
    assert answer.get_json()["taken"]["tensor_parallel"] == "command"


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "command",
    [
        "python -m sglang.launch_server --model-path meta-llama/Llama-3.1-8B-Instruct",
        "trtllm-serve meta-llama/Llama-3.1-8B-Instruct",
        "llama-server -m Llama-3.1-8B-Instruct-Q8_0.gguf -c 8192",
    ],
)
def test_the_command_of_every_engine_is_repeated(client: "FlaskClient", path: str, command: str) -> None:
    answer = client.post(path, json={"command": command, "gpu": "h100-sxm-80gb"}).get_json()

    assert answer["question"]["command"] == command
    assert answer["taken"]["command"] == "request"


@pytest.mark.parametrize("path", PATHS)
def test_a_line_and_its_words_get_the_same_answer_by_either_method(client: "FlaskClient", path: str) -> None:
    answers = [
        client.get(path, query_string=QUESTION),
        client.post(path, json=QUESTION),
        client.post(path, json={**QUESTION, "command": WORDS}),
    ]

    assert len({answer.data for answer in answers}) == 1


@pytest.mark.parametrize("path", PATHS)
def test_what_was_understood_fits_its_schema(client: "FlaskClient", path: str) -> None:
    assert UnderstoodCommand().validate(client.get(path, query_string=QUESTION).get_json()["command"]) == {}


def test_without_a_command_it_is_null(client: "FlaskClient") -> None:
    assert client.get("/fit?model=llama-2-7b&gpu=h100-sxm-80gb").get_json()["command"] is None


def test_words_keep_what_a_shell_would_take_apart(client: "FlaskClient") -> None:
    words = [*WORDS, "--chat-template", "{% if a && b %}; $x `y` 'z'"]
    answer = client.post("/fit", json={**QUESTION, "command": words})

    assert answer.get_json()["command"]["ignored"] == ["--port", "--chat-template"]


def test_a_refusal_points_at_the_command(client: "FlaskClient") -> None:
    found = problem(
        client.get("/fit", query_string={**QUESTION, "command": f"{COMMAND} --enable-sleep-mode"}), 422, "not-supported"
    )

    assert pointers(found) == ["/command"]
    assert "--enable-sleep-mode" in found["detail"]


def test_a_contradiction_points_at_both(client: "FlaskClient") -> None:
    found = problem(client.post("/fit", json={**QUESTION, "tensor_parallel": 4}), 422, "validation-error")

    assert pointers(found) == ["/tensor_parallel", "/command"]


def test_an_unknown_flag_is_refused_with_the_nearest(client: "FlaskClient") -> None:
    found = problem(
        client.post("/fit", json={**QUESTION, "command": "vllm serve x --max-len 1"}), 422, "validation-error"
    )

    assert "--max-model-len" in found["errors"][0]["nearest"]


def test_a_lever_of_a_command_can_be_asked_for_by_name(client: "FlaskClient") -> None:
    answer = client.get("/fit", query_string=QUESTION).get_json()
    lever = answer["levers"][0]
    said = {"engine": answer["command"]["engine"], **answer["command"]["set"], "gpu": QUESTION["gpu"]}
    named = {**said, "context_tokens": answer["question"]["context_tokens"], **lever["change"]}

    assert client.post("/fit", json=named).get_json()["max_sequences"] == lever["max_sequences"]


@pytest.mark.parametrize(
    "command, pointer",
    [
        ("", "/command"),
        ("x" * (limits.COMMAND_CHARACTERS + 1), "/command"),
        ([], "/command"),
        (["x"] * (limits.COMMAND_WORDS + 1), "/command"),
        (["vllm", 1], "/command/1"),
        ({"vllm": "serve"}, "/command"),
        ("vllm serve \0", "/command"),
        (["x" * limits.COMMAND_CHARACTERS, "y"], "/command"),
        ("x " * (limits.COMMAND_WORDS + 1), "/command"),
    ],
    ids=[
        "empty",
        "long",
        "no-words",
        "many-words",
        "no-word",
        "object",
        "control",
        "long-words",
        "many-words-of-a-line",
    ],
)
def test_what_is_no_command_is_refused(client: "FlaskClient", command: object, pointer: str) -> None:
    body = json.dumps({**QUESTION, "command": command})
    answer = client.post("/fit", data=body, content_type="application/json")

    assert pointers(problem(answer, 422, "validation-error")) == [pointer]


def test_a_list_is_read_as_text_too(client: "FlaskClient") -> None:
    as_text = client.get("/fit", query_string={**QUESTION, "command": json.dumps(WORDS)}).get_json()
    as_words = client.post("/fit", json={**QUESTION, "command": WORDS}).get_json()

    assert as_text["command"] == as_words["command"]
    assert as_text["ledger"] == as_words["ledger"]


def test_sizes_of_graphs_that_a_command_lists_can_be_asked_by_name(client: "FlaskClient") -> None:
    sizes = [1, 2, 4, *range(8, 513, 8)]
    command = f"{COMMAND} --cudagraph-capture-sizes {' '.join(map(str, sizes))}"
    by_command = client.post("/fit", json={**QUESTION, "command": command}).get_json()
    asked = {"model": "llama-3.1-8b-instruct", "gpu": "h100-sxm-80gb", "engine": "vllm", "tensor_parallel": 2}
    asked |= {"context_tokens": 8192, "graph_sizes": sizes}

    assert by_command["question"]["graph_sizes"] == sizes
    for answer in (
        client.post("/fit", json=asked),
        client.get("/fit", query_string={**asked, "graph_sizes": ",".join(map(str, sizes))}),
    ):
        assert answer.get_json()["ledger"] == by_command["ledger"]
    assert pointers(client.post("/fit", json={**asked, "graph_sizes": [1] * 1025}).get_json()) == ["/graph_sizes"]
