"""Bodies that are not a question: each is refused with its own kind of problem, and none is half read."""

import gzip
import io
import json
import resource
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from service.api import bodies
from service.api.problems import ProblemError
from tests.api.asking import QUESTION, pointers, problem
from tests.computing import quickly

if TYPE_CHECKING:
    from flask.testing import FlaskClient
    from werkzeug.test import TestResponse

GOOD = json.dumps(QUESTION).encode()
JSON = "application/json"
LIMIT = 1 << 20


class Case(NamedTuple):
    """A body, and how it is announced, with what it must be answered."""

    says: str
    body: bytes
    status: int
    name: str
    content_type: str | None = JSON
    headers: dict[str, str] = {}  # noqa: RUF012 - never changed


CASES = [
    Case("empty", b"", 400, "malformed-json"),
    Case("something after the value", b'{"model":"x"}x', 400, "malformed-json"),
    Case("a trailing comma", b'{"model":"x",}', 400, "malformed-json"),
    Case("single quotes", b"{'model':'x'}", 400, "malformed-json"),
    Case("a comment", b'{"model":"x" /* y */}', 400, "malformed-json"),
    Case("a byte that is not UTF-8", b'{"model":"\xff"}', 400, "malformed-json"),
    Case("UTF-16", GOOD.decode().encode("utf-16"), 400, "malformed-json"),
    Case("UTF-16 without a mark", GOOD.decode().encode("utf-16-le"), 400, "malformed-json"),
    Case("a byte order mark", b"\xef\xbb\xbf" + GOOD, 400, "malformed-json"),
    Case("latin-1", b'{"model":"\xe9"}', 415, "unsupported-media-type", "application/json; charset=latin-1"),
    Case("a list", b"[1]", 422, "validation-error"),
    Case("null", b"null", 422, "validation-error"),
    Case("a string", b'"x"', 422, "validation-error"),
    Case("a number", b"1", 422, "validation-error"),
    Case("a name twice", b'{"gpu":"a10","gpu":"l40s"}', 400, "duplicate-key"),
    Case("a name twice in a config", b'{"config":{"a":{"b":1,"b":2}}}', 400, "duplicate-key"),
    Case("100,000 brackets", b"[" * 100_000, 400, "too-deep"),
    Case("50,000 braces", b'{"a":' * 50_000, 400, "too-deep"),
    Case("990 levels inside a field", b'{"config":' + b"[" * 990 + b"]" * 990 + b"}", 400, "too-deep"),
    Case("33 levels", b"[" * 33 + b"]" * 33, 400, "too-deep"),
    Case("text/plain", GOOD, 415, "unsupported-media-type", "text/plain"),
    Case("a form", b"model=x", 415, "unsupported-media-type", "application/x-www-form-urlencoded"),
    Case("multipart", b"--b--", 415, "unsupported-media-type", "multipart/form-data; boundary=b"),
    Case("no content type", GOOD, 415, "unsupported-media-type", None),
    Case("a content type that is none", GOOD, 415, "unsupported-media-type", ";;;"),
    Case("a +json type", GOOD, 415, "unsupported-media-type", "application/vnd.x+json"),
    Case("plain bytes called gzip", GOOD, 415, "unsupported-media-type", headers={"Content-Encoding": "gzip"}),
    Case(
        "a gzip bomb",
        gzip.compress(b"0" * (64 << 20)),
        415,
        "unsupported-media-type",
        headers={"Content-Encoding": "gzip"},
    ),
    Case("one byte over the limit", GOOD + b" " * (LIMIT + 1 - len(GOOD)), 413, "too-large"),
    Case("NaN", b'{"memory_bytes":NaN}', 400, "malformed-json"),
    Case("Infinity", b'{"memory_bytes":Infinity}', 400, "malformed-json"),
    Case("-Infinity", b'{"memory_bytes":-Infinity}', 400, "malformed-json"),
    Case("4,400 digits", b'{"memory_bytes":' + b"9" * 4400 + b"}", 400, "malformed-json"),
    Case("4,200 digits", b'{"memory_bytes":' + b"9" * 4200 + b"}", 422, "validation-error"),
    Case("the largest body of empty lists", b"[[]" + b",[]" * ((LIMIT - 4) // 3) + b"]", 422, "validation-error"),
]


def post(client: "FlaskClient", body: bytes, content_type: str | None = JSON, **headers: str) -> "TestResponse":
    return post_stream(client, io.BytesIO(body), content_type, headers, CONTENT_LENGTH=str(len(body)))


def post_chunked(client: "FlaskClient", body: bytes) -> "TestResponse":
    return post_stream(client, io.BytesIO(body), HTTP_TRANSFER_ENCODING="chunked")


def post_stream(
    client: "FlaskClient",
    stream: object,
    content_type: str | None = JSON,
    headers: Mapping[str, str] | None = None,
    **environ: str,
) -> "TestResponse":
    """As a server hands a request over: the client's own arithmetic of lengths is left out."""
    overrides = {"wsgi.input": stream, "CONTENT_LENGTH": "", **environ}
    return client.post("/fit", content_type=content_type, headers=headers, environ_overrides=overrides)


@pytest.mark.parametrize("case", CASES, ids=[case.says for case in CASES])
def test_a_bad_body_is_refused(client: "FlaskClient", case: Case) -> None:
    problem(post(client, case.body, case.content_type, **case.headers), case.status, case.name)


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json",
        "application/json; charset=utf-8",
        "Application/JSON;charset=UTF-8",
        "application/json; charset=utf8",
    ],
)
def test_json_in_utf8_is_taken_however_it_is_announced(client: "FlaskClient", content_type: str) -> None:
    assert post(client, GOOD, content_type).status_code == 200


def test_a_body_that_is_not_compressed_may_say_so(client: "FlaskClient") -> None:
    assert post(client, GOOD, **{"Content-Encoding": "identity"}).status_code == 200


def test_what_is_no_object_is_at_fault_as_a_whole(client: "FlaskClient") -> None:
    assert pointers(problem(post(client, b"[1]"), 422, "validation-error")) == [""]


def test_the_place_of_a_syntax_error_is_given(client: "FlaskClient") -> None:
    found = problem(post(client, b'{"model": "x",\n "gpu" "y"}'), 400, "malformed-json")

    assert found["detail"].startswith("Line 2, column 8:")


@pytest.mark.parametrize("send", [post, post_chunked])
def test_a_body_of_exactly_the_limit_is_taken(client: "FlaskClient", send: Any) -> None:  # noqa: ANN401
    assert send(client, GOOD + b" " * (LIMIT - len(GOOD))).status_code == 200


def test_a_chunked_body_over_the_limit_is_refused_and_not_cut(client: "FlaskClient") -> None:
    problem(post_chunked(client, GOOD + b" " * (LIMIT + 1 - len(GOOD))), 413, "too-large")


def test_a_chunked_body_with_rubbish_behind_the_limit_is_refused(client: "FlaskClient") -> None:
    problem(post_chunked(client, GOOD + b" " * (LIMIT - len(GOOD)) + b"rubbish"), 413, "too-large")


def test_a_body_without_a_length_is_refused(client: "FlaskClient") -> None:
    response = post_stream(client, io.BytesIO(GOOD))

    problem(response, 411, "length-required")


def test_a_body_that_ends_early_is_refused(client: "FlaskClient") -> None:
    response = post_stream(client, io.BytesIO(GOOD), CONTENT_LENGTH="999")

    problem(response, 400, "malformed-request")


@pytest.mark.parametrize("length", ["-1", "+8", "8.0", "1e1", "٣", "9" * 50])
def test_a_length_that_is_no_number_is_refused(client: "FlaskClient", length: str) -> None:
    response = post_stream(client, io.BytesIO(GOOD), CONTENT_LENGTH=length)

    problem(response, 400, "malformed-request")


def test_a_length_over_the_limit_is_refused_without_reading(client: "FlaskClient") -> None:
    class Untouchable:
        def read(self, size: int = -1) -> bytes:
            raise AssertionError(f"{size} bytes were asked for")

    response = post_stream(client, Untouchable(), CONTENT_LENGTH="99999999999")

    problem(response, 413, "too-large")


def test_whatever_a_broken_stream_raises_is_the_requests_fault(client: "FlaskClient") -> None:
    class Broken:
        def read(self, size: int = -1) -> bytes:
            raise RuntimeError("a class of the server's own", size)

    response = post_stream(client, Broken(), HTTP_TRANSFER_ENCODING="chunked")

    problem(response, 400, "malformed-request")


def test_thirty_two_levels_are_read(client: "FlaskClient") -> None:
    inner = b"[" * 30 + b"]" * 30

    assert post(client, b'{"config":{"a":' + inner + b"}}").status_code != 400


def test_brackets_inside_strings_are_no_depth(client: "FlaskClient") -> None:
    text = json.dumps({"config": {"note": '[{"' * 1000 + "\\"}}).encode()

    assert post(client, text).status_code != 400


def test_an_unfinished_string_of_escaped_quotes_is_refused_at_once() -> None:
    """The search for strings must not start over at each quote: that would take hours for a body of the limit."""

    def refused() -> ProblemError:
        with pytest.raises(ProblemError) as caught:
            bodies.parse(b"[" * 40 + b'"' + b'\\"' * (LIMIT // 2), most_levels=32)
        return caught.value

    assert quickly(refused).kind.name == "too-deep"


def test_the_largest_body_costs_little_time_and_memory(client: "FlaskClient") -> None:
    body = b'{"config":[[]' + b",[]" * ((LIMIT - 20) // 3) + b"]}"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    problem(quickly(lambda: post(client, body)), 422, "validation-error")

    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30 * 1024


def test_sixty_thousand_unknown_names_are_not_all_echoed(client: "FlaskClient") -> None:
    names = ",".join(f'"unknown_{number}":1' for number in range(60_000))
    body = b"{" + names.encode()[: LIMIT - 100].rpartition(b",")[0] + b"}"

    found = problem(quickly(lambda: post(client, body)), 422, "validation-error")

    assert 1 < len(found["errors"]) <= 50


def test_an_unknown_name_of_half_a_megabyte_is_cut(client: "FlaskClient") -> None:
    found = problem(post(client, b'{"' + b"k" * 500_000 + b'":1}'), 422, "validation-error")

    assert pointers(found) == ["/" + "k" * 64]


def test_fifty_long_names_in_emoji_stay_within_the_answers_limit(client: "FlaskClient") -> None:
    body = json.dumps({"😀" * 60 + str(number): 1 for number in range(60)}, ensure_ascii=False)

    assert problem(post(client, body.encode()), 422, "validation-error")["errors"]


def test_a_deep_key_of_a_config_is_cut_as_well(client: "FlaskClient") -> None:
    found = problem(
        post(client, json.dumps({"config": {"k" * 9000: 1e300 * 1e10}}).replace("Infinity", "1e999").encode()),
        422,
        "validation-error",
    )

    assert pointers(found) == ["/config/" + "k" * 64]


def test_the_limits_are_settings(make_app: Any, tmp_path: Any) -> None:  # noqa: ANN401
    app = make_app(f"sqlite:///{tmp_path}/none.db", KVQUOTE_MAX_BODY_BYTES="1024", KVQUOTE_MAX_JSON_DEPTH="8")
    small = app.test_client()

    problem(post(small, b" " * 1025), 413, "too-large")
    problem(post(small, b"[" * 9 + b"]" * 9), 400, "too-deep")
