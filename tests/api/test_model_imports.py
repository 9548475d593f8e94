"""`POST /models/import`: who may, what is stored, what is quoted of it then, and what is refused where."""

import json
from base64 import b64encode
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gguf
import pytest

from service.api.large_bodies import read_members
from service.api.schemas.imports import IMPORT_BODY, LARGE
from service.domain.files import gathered, read_safetensors_json
from tests.api.asking import problem
from tests.api.desk import Desk
from tests.domain.files.written import gguf_file, header_of, many_tensors, peak_bytes, safetensors_file

if TYPE_CHECKING:
    from werkzeug.test import TestResponse

CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "vocab_size": 1000,
    "tie_word_embeddings": False,
    "torch_dtype": "float16",
    "max_position_embeddings": 2048,
}
SHAPES = {
    "model.embed_tokens.weight": (1024, 256),
    "lm_head.weight": (1024, 256),
    "model.norm.weight": (256,),
    "model.layers.0.input_layernorm.weight": (256,),
    "model.layers.0.post_attention_layernorm.weight": (256,),
    **{f"model.layers.0.self_attn.{name}_proj.weight": (256, 256) for name in "qkvo"},
    **{f"model.layers.0.mlp.{name}_proj.weight": (512, 256) for name in ("gate", "up")},
    "model.layers.0.mlp.down_proj.weight": (256, 512),
}
HELD = 2 * (2 * 1024 * 256 + 3 * 256 + 4 * 256 * 256 + 3 * 256 * 512)
ASKED = {"hub_id": "owner/tiny-llama", "config": CONFIG}


@pytest.fixture(scope="module")
def header() -> dict[str, Any]:
    read: dict[str, Any] = json.loads(header_of(safetensors_file(SHAPES))[8:])
    return read


def send(desk: Desk, asked: object, **headers: str) -> "TestResponse":
    return desk.client.post("/models/import", json=asked, headers={**desk.writer, "If-None-Match": "*", **headers})


def weights(desk: Desk, **asked: object) -> int:
    question = {"model": "tiny-llama", "gpu": "a10", "context_tokens": 512, **asked}
    found: int = desk.client.post("/fit", json=question).get_json()["weight_bytes"]
    return found


def test_a_header_makes_an_entry_whose_quotes_hold_what_the_file_does(desk: Desk, header: dict[str, Any]) -> None:
    response = send(desk, {**ASKED, "safetensors_header": header})

    assert response.status_code == 201, response.text
    assert response.headers["Location"] == "/models/tiny-llama"
    assert response.get_json()["facts"]["checkpoint"]["weight_bytes"] == HELD
    assert desk.client.get("/models/tiny-llama").get_json()["weight_bytes"] == HELD
    assert weights(desk) == HELD
    assert weights(desk, weight_dtype="fp32") == 4 * response.get_json()["parameters"]


def test_the_headers_of_all_files_are_one_checkpoint(desk: Desk) -> None:
    names = list(SHAPES)
    parts = [safetensors_file({name: SHAPES[name] for name in half}) for half in (names[:4], names[4:])]
    headers = [json.loads(header_of(part)[8:]) for part in parts]

    response = send(desk, {**ASKED, "safetensors_header": headers})

    assert response.get_json()["facts"]["checkpoint"]["weight_bytes"] == HELD


def test_a_header_given_twice_is_not_counted_twice(desk: Desk, header: dict[str, Any]) -> None:
    other = json.loads(header_of(safetensors_file({"model.extra.weight": (4, 4)}))[8:])
    headers: list[dict[str, Any]] = [header, other, dict(reversed(list(header.items())))]

    response = send(desk, {**ASKED, "safetensors_header": headers})

    assert [error["pointer"] for error in problem(response, 422, "validation-error")["errors"]] == [
        "/safetensors_header/2"
    ]
    assert "/safetensors_header/0" in response.get_json()["detail"]


@pytest.mark.parametrize("hub_id", ["../tiny", "owner/.x", "o wner/x", "owner/\u0130x", "a/b/c", "/x", "owner/"])
def test_a_hub_id_is_one_that_the_hub_can_have(desk: Desk, hub_id: str) -> None:
    errors = problem(send(desk, {**ASKED, "hub_id": hub_id}), 422, "validation-error")["errors"]

    assert [error["pointer"] for error in errors] == ["/hub_id"]


def test_an_index_makes_an_entry(desk: Desk) -> None:
    index = {"metadata": {"total_size": HELD}, "weight_map": dict.fromkeys(SHAPES, "model.safetensors")}

    assert send(desk, {**ASKED, "safetensors_index": index}).get_json()["facts"]["checkpoint"]["weight_bytes"] == HELD


def test_a_gguf_header_makes_an_entry(desk: Desk, tmp_path: Path) -> None:
    shapes = {name.replace("model.layers.0", "blk.0"): shape for name, shape in SHAPES.items() if len(shape) > 1}
    data = gguf_file(tmp_path, shapes, gguf.GGMLQuantizationType.Q4_K)

    response = send(desk, {**ASKED, "gguf_header": b64encode(data[:4000]).decode()})

    checkpoint = response.get_json()["facts"]["checkpoint"]
    assert (checkpoint["dtype"], checkpoint["weight_bytes"]) == ("q4_k_m", (HELD // 2 - 768) // 256 * 144)


def test_a_config_alone_makes_an_entry(desk: Desk) -> None:
    response = send(desk, {**ASKED, "licence": "apache-2.0"})

    assert (response.status_code, response.get_json()["licence"]) == (201, "apache-2.0")


def test_an_entry_that_is_there_needs_its_tag(desk: Desk, header: dict[str, Any]) -> None:
    tag = send(desk, ASKED).headers["ETag"]

    problem(send(desk, ASKED), 412, "precondition-failed")
    changed = desk.client.post(
        "/models/import", json={**ASKED, "safetensors_header": header}, headers={**desk.writer, "If-Match": tag}
    )
    assert (changed.status_code, changed.get_json()["weight_bytes"]) == (200, HELD)


def test_without_a_token_that_may_write_nothing_is_stored(desk: Desk) -> None:
    assert desk.client.post("/models/import", json=ASKED, headers={"If-None-Match": "*"}).status_code == 401
    refused = desk.client.post("/models/import", json=ASKED, headers={**desk.reader, "If-None-Match": "*"})
    assert refused.status_code == 403
    assert desk.client.get("/models/tiny-llama").status_code == 404


def test_without_a_condition_nothing_is_stored(desk: Desk) -> None:
    assert desk.client.post("/models/import", json=ASKED, headers=desk.writer).status_code == 428


@pytest.mark.parametrize(
    "asked, pointer",
    [
        ({"config": CONFIG}, "/hub_id"),
        ({"hub_id": "owner/tiny-llama"}, "/config"),
        ({**ASKED, "hub_id": "tiny-llama"}, "/hub_id"),
        ({**ASKED, "hub_id": "owner/###"}, "/hub_id"),
        ({**ASKED, "config": {**CONFIG, "num_hidden_layers": 10**9}}, "/config/num_hidden_layers"),
        ({**ASKED, "config": {**CONFIG, "model_type": "of-tomorrow"}}, "/config/model_type"),
        ({**ASKED, "safetensors_header": {}}, "/safetensors_header"),
        ({**ASKED, "safetensors_header": []}, "/safetensors_header"),
        ({**ASKED, "safetensors_header": {"a": {"dtype": "F16"}}}, "/safetensors_header/a/shape"),
        ({**ASKED, "safetensors_header": [{}, {"a": {"dtype": "F16"}}]}, "/safetensors_header/1/a/shape"),
        ({**ASKED, "safetensors_header": [1]}, "/safetensors_header"),
        ({**ASKED, "safetensors_index": {}}, "/safetensors_index"),
        ({**ASKED, "safetensors_index": {"metadata": {}}}, "/safetensors_index/metadata/total_size"),
        ({**ASKED, "safetensors_index": {"a": 1}, "gguf_header": "R0dVRg=="}, "/safetensors_index"),
        ({**ASKED, "gguf_header": "R0dVRg=="}, "/gguf_header"),
        ({**ASKED, "gguf_header": "…"}, "/gguf_header"),
        ({**ASKED, "gguf_header": b64encode(b"GGUF\3\0\0\0" + b"\xff" * 16).decode()}, "/gguf_header/tensor_count"),
        ({**ASKED, "weights": 1}, "/weights"),
    ],
    ids=[
        "no id", "no config", "no owner", "no slug", "layers", "family", "no tensors", "no headers", "no shape",
        "no shape in the second", "a number", "no index", "no total", "two", "cut short", "no base64",
        "2^64 tensors", "unknown name",
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_by_field(shared_desk: Desk, asked: dict[str, Any], pointer: str) -> None:
    refused = send(shared_desk, asked)

    assert refused.status_code == 422, refused.text
    assert refused.get_json()["errors"][0]["pointer"] == pointer


def test_a_body_of_a_hundred_megabytes_is_refused_unread(shared_desk: Desk) -> None:
    body = b'{"config": "' + b" " * 100_000_000 + b'"}'
    headers = {**shared_desk.writer, "If-None-Match": "*"}

    response = shared_desk.client.post("/models/import", data=body, headers=headers, content_type="application/json")

    problem(response, 413, "too-large")


def test_a_name_that_another_model_has_is_refused(shared_desk: Desk) -> None:
    refused = send(shared_desk, {**ASKED, "hub_id": "owner/Llama-2-7B"}, **{"If-None-Match": "*"})

    assert refused.status_code in {409, 412}


def test_a_large_header_takes_no_more_than_four_times_its_size() -> None:
    body = b'{"hub_id": "a/b", "safetensors_header": ' + many_tensors(20_000)[8:] + b"}"
    environ = {"CONTENT_TYPE": "application/json", "CONTENT_LENGTH": str(len(body)), "wsgi.input": BytesIO(body)}

    def read() -> object:
        members = read_members(environ, len(body), 32, LARGE)
        (text,) = IMPORT_BODY.read({**members, "config": {}})["safetensors_header"]
        return gathered(read_safetensors_json(text.data, ""), 61, "", predicts=True)

    assert peak_bytes(read) < 4 * len(body)
