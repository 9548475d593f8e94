"""`POST /logs`: what a log says, the question it implies, and the quote beside it."""

import gzip
import io
import json
import tracemalloc
import zlib
from typing import TYPE_CHECKING, Any

import pytest

from service.api.limits import LOG_BYTES
from tests.api.asking import problem
from tests.domain.logs.samples import SAMPLES, Sample

if TYPE_CHECKING:
    from flask.testing import FlaskClient
    from werkzeug.test import TestResponse

BY_NAME = {sample.name: sample for sample in SAMPLES}
LLAMA = BY_NAME["vllm-0.11.0-journald-colours"]
TWO_RANKS = BY_NAME["vllm-0.19.0-tp2-kubectl"]
H100 = {"gpu": "h100-sxm-80gb"}
TEXT = "text/plain"


def post(client: "FlaskClient", log: str | bytes, content_type: str = TEXT, **query: Any) -> "TestResponse":  # noqa: ANN401
    return client.post("/logs", data=log, content_type=content_type, query_string=query)


def answer(client: "FlaskClient", sample: Sample, **query: Any) -> dict[str, Any]:  # noqa: ANN401
    response = post(client, sample.text, **query)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.get_json()
    return found


def row(rows: list[dict[str, Any]], name: str, key: str = "part") -> dict[str, Any]:
    return next(row for row in rows if row[key] == name)


def test_it_works(client: "FlaskClient") -> None:
    found = answer(client, LLAMA, **H100)

    assert found["engine"] == {"name": "vllm", "version": "0.11.0"}
    assert found["said"]["kv_capacity_tokens"] == 449_744
    assert found["said_at"]["kv_capacity_tokens"] == {"line": 6, "worker": "EngineCore_DP0", "rounding": 0}
    assert found["question"]["context_limit_tokens"] == 8192
    assert found["quote"]["engine"] == found["engine"]
    assert found["unquoted"] is None


def test_the_quote_is_that_of_fit(client: "FlaskClient") -> None:
    found = answer(client, TWO_RANKS, **H100)
    asked = {name: found["question"][name] for name, source in found["taken"].items() if source in {"log", "request"}}

    quote = client.post("/fit", json=asked).get_json()

    assert found["quote"]["ledger"] == quote["ledger"]
    assert found["quote"]["kv_capacity_tokens"] == quote["kv_capacity_tokens"]


def test_names_come_from_the_log_unless_they_are_given(client: "FlaskClient") -> None:
    found = answer(client, TWO_RANKS, **H100, memory_utilization="0.9")

    assert found["taken"]["tensor_parallel"] == "log"
    assert found["taken"]["memory_utilization"] == found["taken"]["gpu"] == "request"
    assert (found["question"]["tensor_parallel"], found["question"]["memory_utilization"]) == (2, 0.9)


def test_each_part_stands_beside_the_quoted_one(client: "FlaskClient") -> None:
    """Llama-3.3-70B fp8 on two H100: the log has 33.88 GiB of weights, 37.28 of cache and 244,304 tokens."""
    found = answer(client, TWO_RANKS, **H100)

    cache = row(found["comparison"], "kv_cache")
    assert cache["said_bytes"] == found["said"]["kv_cache_bytes"]
    assert cache["difference_bytes"] == cache["quoted_bytes"] - cache["said_bytes"]
    assert abs(cache["relative"]) < 0.03
    assert abs(row(found["comparison"], "weights")["relative"]) < 0.01
    assert row(found["counts"], "kv_capacity_tokens", "name")["said"] == 244_304


def test_printed_settings_reach_the_question(client: "FlaskClient") -> None:
    found = answer(client, BY_NAME["vllm-0.20.2"], **H100)

    assert found["settings"]["enable_prefix_caching"] is True
    assert found["question"]["prefix_caching"] is True
    assert found["taken"]["prefix_caching"] == "log"


@pytest.mark.parametrize(
    "name, gpu, sampler", [("vllm-0.10.0-debug", "l40s", "flashinfer"), ("vllm-0.9.2-kubernetes", "l40s", "sort")]
)
def test_what_samples_is_taken_from_the_log(client: "FlaskClient", name: str, gpu: str, sampler: str) -> None:
    found = answer(client, BY_NAME[name], gpu=gpu)

    assert (found["question"]["sampler_backend"], found["taken"]["sampler_backend"]) == (sampler, "log")
    assert any(f"{sampler} sampler" in part["note"] for part in found["quote"]["ledger"]["parts"])


def test_a_fixed_cache_is_quoted_as_such(client: "FlaskClient") -> None:
    found = answer(client, BY_NAME["vllm-0.29.0-fixed-cache"], **H100)

    assert found["question"]["kv_cache_bytes"] == 16_965_954_970
    assert row(found["counts"], "kv_capacity_tokens", "name")["difference"] == 0


def test_ranks_are_listed_one_by_one(client: "FlaskClient") -> None:
    ranks = answer(client, BY_NAME["vllm-0.19.0-pp2"], **H100)["per_rank"]

    caches = {rank["worker"]: rank["said"]["kv_cache_bytes"] for rank in ranks if "kv_cache_bytes" in rank["said"]}
    assert caches["Worker_PP0"] > caches["Worker_PP1"]


def test_a_refusal_to_start_is_told(client: "FlaskClient") -> None:
    refusal = answer(client, BY_NAME["vllm-0.11.0-refused-cache"], gpu="a100-sxm-40gb")["refusal"]

    assert refusal["kind"] == "kv_cache"
    assert refusal["max_context_tokens"] == 59_584


@pytest.mark.parametrize(
    "name", ["sglang-0.4.6", "sglang-0.5.5-tp2-latent", "sglang-0.5.9-windows", "sglang-0.5.14-drafter"]
)
def test_the_pool_of_sglang_follows_from_the_free_memory_that_it_prints(client: "FlaskClient", name: str) -> None:
    rule = row(answer(client, BY_NAME[name], **H100)["comparison"], "kv_cache_from_free_memory")

    assert abs(rule["relative"]) < 0.005


def test_two_lines_are_enough_for_the_rule_of_sglang(client: "FlaskClient") -> None:
    two = [line for line in BY_NAME["sglang-0.4.6"].lines if "Load weight" in line]
    assert len(two) == 2

    response = post(client, "".join(two), memory_utilization="0.88")

    rule = row(response.get_json()["comparison"], "kv_cache_from_free_memory")
    assert rule["said_bytes"] is None
    # 443,004 tokens of 131,072 bytes, as the engine went on to print.
    assert rule["quoted_bytes"] == pytest.approx(443_004 * 131_072, rel=0.005)


def test_the_pool_of_tensorrt_llm_follows_from_the_free_memory_that_it_prints(client: "FlaskClient") -> None:
    rule = row(
        answer(client, BY_NAME["tensorrt-llm-0.12-engine"], memory_utilization="0.9")["comparison"],
        "kv_cache_from_free_memory",
    )

    assert abs(rule["relative"]) < 0.001


def test_an_engine_that_is_not_quoted_is_read_all_the_same(client: "FlaskClient") -> None:
    found = answer(client, BY_NAME["ollama-0.12"])

    assert found["said"]["kv_capacity_tokens"] == 32768
    assert found["quote"] is None
    assert found["unquoted"]["code"] == "not-supported"
    assert found["unquoted"]["errors"][0]["pointer"] == "/engine"


def test_a_model_that_the_catalog_does_not_hold_leaves_the_quote_away(client: "FlaskClient") -> None:
    found = answer(client, BY_NAME["llama.cpp-b5900-states"])

    assert found["unquoted"]["code"] == "unknown-model"
    assert found["said"]["kv_cache_bytes"] == 4 << 30


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_every_log_is_answered(client: "FlaskClient", sample: Sample) -> None:
    found = answer(client, sample, **H100)

    assert found["engine"]["name"] == sample.engine
    assert (found["quote"] is None) == (found["unquoted"] is not None)
    assert {name: found["said"][name] for name in sample.said} == sample.said


def test_text_lines_and_json_give_the_same_answer(client: "FlaskClient") -> None:
    as_text = post(client, TWO_RANKS.text, **H100)

    as_json = client.post("/logs", json={"log": TWO_RANKS.text, **H100})
    as_lines = post(
        client, "".join(json.dumps({"log": line}) + "\n" for line in TWO_RANKS.lines), "application/x-ndjson", **H100
    )

    assert as_text.data == as_json.data == as_lines.data


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le"])
def test_the_encodings_of_windows_are_read(client: "FlaskClient", encoding: str) -> None:
    body = TWO_RANKS.text.encode(encoding)
    content_type = f"{TEXT}; charset=utf-16" if encoding == "utf-16-le" else TEXT

    assert post(client, body, content_type, **H100).get_json()["said"]["kv_capacity_tokens"] == 244_304


@pytest.mark.parametrize("pack", [gzip.compress, lambda body: gzip.compress(body[:900]) + gzip.compress(body[900:])])
def test_a_log_may_be_compressed(client: "FlaskClient", pack: Any) -> None:  # noqa: ANN401
    response = client.post(
        "/logs", data=pack(LLAMA.text.encode()), content_type=TEXT, headers={"Content-Encoding": "gzip"}
    )

    assert response.get_json()["said"]["kv_capacity_tokens"] == 449_744


def test_bytes_that_are_no_text_do_not_hide_the_lines_that_are(client: "FlaskClient") -> None:
    body = b"\xff\xfe\xfd\x00junk\n".replace(b"\xff\xfe", b"\x80\x81") + LLAMA.text.encode() + b"\x00" * 5000

    assert post(client, body).get_json()["said"]["kv_capacity_tokens"] == 449_744


NOTHING = {
    "nothing": b"",
    "blank lines": b"\n \n\r\n\t\n",
    "a greeting": b"Hello, is this the log service?\n",
    "an access log": b'10.0.0.9 - - [20/Sep/2025:05:00:00 +0000] "GET /health HTTP/1.1" 200 2\n' * 50,
    "zeros": bytes(100_000),
    "noise": bytes(range(256)) * 400,
    "a program that is out of memory": b"CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of"
    b" 23.53 GiB of which 1.20 GiB is free.\n",
}


@pytest.mark.parametrize("name", sorted(NOTHING))
def test_a_log_of_no_engine_is_refused_with_what_is_looked_for(client: "FlaskClient", name: str) -> None:
    body = NOTHING[name]
    overrides = {"wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body))}
    response = client.post("/logs", content_type=TEXT, environ_overrides=overrides)

    detail = problem(response, 422, "validation-error")["errors"][0]["detail"]
    assert "Load weight begin" in detail


@pytest.mark.parametrize(
    "content_type",
    [
        "application/x-www-form-urlencoded",
        "image/png",
        "text/html",
        "text/plain; charset=ebcdic",
        "application/json; charset=utf-16",
    ],
)
def test_other_types_are_refused_with_the_way_out(client: "FlaskClient", content_type: str) -> None:
    problem(post(client, LLAMA.text, content_type), 415, "unsupported-media-type")


@pytest.mark.parametrize(
    "body, status, code",
    [
        (b'{"gpu": "a10"}', 422, "validation-error"),
        (b'{"log": 5}', 422, "validation-error"),
        (b'{"log": null}', 422, "validation-error"),
        (b'{"log": ["a", "b"]}', 422, "validation-error"),
        (b'{"log": "x", "lag": 1}', 422, "validation-error"),
        (b'{"log": "x", "tensor_parallel": "two"}', 422, "validation-error"),
        (b'["log"]', 422, "validation-error"),
        (b'"log"', 422, "validation-error"),
        (b'{"log": "x"', 400, "malformed-json"),
        (b'{"log": "x\n"}', 400, "malformed-json"),
        (b'{"log": "\\q"}', 400, "malformed-json"),
        (b'{"log": "\xff"}', 400, "malformed-json"),
        (b'{"log": "a", "log": "b"}', 400, "duplicate-key"),
        (b'{"log": "a"} {"log": "b"}', 400, "malformed-json"),
    ],
)
def test_json_that_holds_no_log_is_refused(client: "FlaskClient", body: bytes, status: int, code: str) -> None:
    problem(post(client, body, "application/json"), status, code)


def test_a_query_beside_json_is_refused(client: "FlaskClient") -> None:
    problem(client.post("/logs?gpu=a10", json={"log": LLAMA.text}), 422, "validation-error")


def test_an_unknown_name_in_the_query_is_refused_with_the_nearest(client: "FlaskClient") -> None:
    refused = problem(post(client, LLAMA.text, gpuz="a10"), 422, "validation-error")

    assert "gpu" in refused["errors"][0]["nearest"]


@pytest.mark.parametrize("escaped", ["\\u00e9", "\\ud83d\\ude00", "\\\\", "\\\\\\\\n", '\\"', "é", "😀"])
def test_escapes_are_read_wherever_the_log_is_cut_into_pieces(client: "FlaskClient", escaped: str) -> None:
    filling = escaped * (200_000 // len(escaped.encode()))
    quoted = json.dumps(LLAMA.text)[1:-1]

    response = post(client, f'{{"log": "{filling}\\n{quoted}"}}'.encode(), "application/json")

    assert response.status_code == 200, response.text
    assert response.get_json()["said"]["kv_capacity_tokens"] == 449_744


def padded(size: int) -> bytes:
    """A log of that size that ends with a start; of long lines, which take less time."""
    text = LLAMA.text.encode()
    line = b"INFO 11-02 04:20:00 [loggers.py:118] GPU KV cache usage: " + b"1.0%, " * 3000 + b"\n"
    filling = (line * (size // len(line) + 1))[: size - len(text) - 1]
    return filling + b"\n" + text


def test_a_log_at_the_limit_is_read_and_a_longer_one_is_not(client: "FlaskClient") -> None:
    assert post(client, padded(LOG_BYTES)).status_code == 200
    problem(post(client, padded(LOG_BYTES + 1)), 413, "too-large")


def test_what_unpacks_to_more_than_the_limit_is_refused(client: "FlaskClient") -> None:
    bomb = zlib.compressobj(wbits=31)
    packed = b"".join(bomb.compress(bytes(1 << 20)) for _ in range(30)) + bomb.flush()

    response = client.post("/logs", data=packed, content_type=TEXT, headers={"Content-Encoding": "gzip"})

    problem(response, 413, "too-large")


@pytest.mark.parametrize("content_type", [TEXT, "application/json"])
def test_a_large_log_takes_no_more_than_its_size_and_twenty_mebibytes(client: "FlaskClient", content_type: str) -> None:
    body = padded(9 << 20)
    if content_type != TEXT:
        body = b'{"log": ' + json.dumps(body.decode()).encode() + b"}"
    overrides = {"wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body))}
    tracemalloc.start()
    try:
        response = client.post("/logs", content_type=content_type, environ_overrides=overrides)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert response.status_code == 200
    assert most < len(body) + (20 << 20)


def test_a_line_of_a_megabyte_is_passed_over(client: "FlaskClient") -> None:
    assert (
        post(client, b"x" * (1 << 20) + b"\n" + LLAMA.text.encode()).get_json()["start"]["lines"]
        == len(LLAMA.lines) + 1
    )


def test_nothing_needs_a_token_and_nothing_is_cached(client: "FlaskClient") -> None:
    response = post(client, LLAMA.text)

    assert response.status_code == 200
    assert "ETag" not in response.headers


@pytest.mark.parametrize("number", ["1.5", "2.0", "99999999"])
def test_a_number_that_no_question_has_leaves_the_log_unquoted(client: "FlaskClient", number: str) -> None:
    text = BY_NAME["vllm-0.6.6-ray-tp2"].text.replace("pipeline_parallel_size=1", f"pipeline_parallel_size={number}")
    found = post(client, text, gpu="rtx-4090", model="llama-2-7b").get_json()

    assert found["quote"] is None
    assert [error["pointer"] for error in found["unquoted"]["errors"]] == ["/pipeline_parallel"]
