"""Values that no question can have: wrong types, ranges and names, in a body and in a query string alike."""

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from tests.api.asking import QUESTION, pointers, problem, strict

if TYPE_CHECKING:
    from flask.testing import FlaskClient

JSON = "application/json"


def refused(client: "FlaskClient", literal: str, name: str = "context_tokens", path: str = "/fit") -> dict[str, Any]:
    """POST the question with one value as it is spelt."""
    others = {key: value for key, value in QUESTION.items() if key != name}
    body = json.dumps(others)[:-1] + f', "{name}": {literal}}}'
    return problem(client.post(path, data=body.encode(), content_type=JSON), 422, "validation-error")


@pytest.mark.parametrize(
    "literal",
    ['"4096"', '"nan"', "true", "false", "1.9", "1e400", "-1e400", "0", "-1", "4294967296", "[]", "{}", '""', "1e300"],
)
def test_a_count_is_a_whole_number_in_its_range(client: "FlaskClient", literal: str) -> None:
    assert pointers(refused(client, literal)) == ["/context_tokens"]


@pytest.mark.parametrize("literal", ["4096", "4096.0", "4.096e3"])
def test_an_integer_is_one_however_it_is_spelt(client: "FlaskClient", literal: str) -> None:
    body = json.dumps(QUESTION).replace("4096", literal)

    answer = client.post("/fit", data=body, content_type=JSON)

    assert '"context_tokens":4096,' in answer.text


@pytest.mark.parametrize("name", ["gpu_count", "tensor_parallel", "data_parallel", "batch_size", "memory_bytes"])
@pytest.mark.parametrize("literal", ["0", "-1", "9007199254740993"])
def test_counts_that_can_be_multiplied_have_bounds(client: "FlaskClient", name: str, literal: str) -> None:
    assert pointers(refused(client, literal, name)) == [f"/{name}"]


@pytest.mark.parametrize("literal", ["0", "1.0000001", "-0.0", "-1", '"0.9"', "true", "1e400"])
def test_utilization_lies_above_zero_and_up_to_one(client: "FlaskClient", literal: str) -> None:
    assert pointers(refused(client, literal, "memory_utilization")) == ["/memory_utilization"]


@pytest.mark.parametrize("name", ["bandwidth_bytes_per_second", "peak_flops_per_second", "parameters", "weight_bytes"])
@pytest.mark.parametrize("literal", ["0", "5e-324", "-1", "1e308", '"1.5"'])
def test_a_quantity_that_is_divided_by_has_bounds(client: "FlaskClient", name: str, literal: str) -> None:
    assert pointers(refused(client, literal, name)) == [f"/{name}"]


@pytest.mark.parametrize("literal", ["1", '"true"', '"yes"', "0", "[]"])
def test_a_flag_is_true_or_false(client: "FlaskClient", literal: str) -> None:
    assert pointers(refused(client, literal, "expert_parallel")) == ["/expert_parallel"]


@pytest.mark.parametrize(
    "literal",
    [
        '"\\ud800"',
        '"a\\u0000b"',
        '"a\\u202eb"',
        '"a\\u200bb"',
        '"a\\nb"',
        '"\\ue000"',
        '""',
        '" a"',
        '"a "',
        "1",
        "[]",
        json.dumps("x" * 201),
    ],
)
def test_a_name_is_short_and_visible(client: "FlaskClient", literal: str) -> None:
    assert pointers(refused(client, literal, "model")) == ["/model"]


@pytest.mark.parametrize("name", ["x" * 200, "😀" * 200, "__proto__", "{{7*7}}", "' OR 1=1--", "<script>", "é"])
def test_a_name_that_nothing_has_is_unknown_and_nothing_else(client: "FlaskClient", name: str) -> None:
    found = problem(client.post("/fit", json={**QUESTION, "model": name}), 422, "unknown-model")

    assert pointers(found) == ["/model"]


def test_a_name_is_the_same_composed_and_decomposed(client: "FlaskClient") -> None:
    answers = [client.post("/fit", json={**QUESTION, "model": name}).get_json() for name in ("é", "e\u0301")]

    assert answers[0]["detail"] == answers[1]["detail"]


@pytest.mark.parametrize("name", ["__class__", "self", "constructor", "modle", "", "a/b", "MODEL"])
def test_an_unknown_name_is_refused_wherever_it_stands(client: "FlaskClient", name: str) -> None:
    by_body = problem(client.post("/fit", json={**QUESTION, name: 1}), 422, "validation-error")
    by_query = problem(client.get("/fit", query_string={**QUESTION, name: 1}), 422, "validation-error")

    assert pointers(by_body) == pointers(by_query) == ["/" + name.replace("/", "~1")]


def test_a_misspelt_name_names_the_known_one(client: "FlaskClient") -> None:
    found = problem(client.post("/fit", json={**QUESTION, "kv_dtpye": "fp8"}), 422, "validation-error")

    assert found["errors"][0]["nearest"][0] == "kv_dtype"
    assert "'kv_dtype'" in found["detail"]


def test_a_misspelt_engine_names_the_known_one(client: "FlaskClient") -> None:
    found = problem(client.post("/fit", json={**QUESTION, "engine": "vlm"}), 422, "validation-error")

    assert found["errors"][0]["nearest"][0] == "vllm"


def test_null_counts_as_absent(client: "FlaskClient") -> None:
    given = client.post("/fit", json={**QUESTION, "kv_dtype": None, "lengths": None})

    assert given.data == client.post("/fit", json=QUESTION).data


def test_null_does_not_make_an_unknown_name_known(client: "FlaskClient") -> None:
    assert pointers(problem(client.post("/fit", json={**QUESTION, "modle": None}), 422, "validation-error")) == [
        "/modle"
    ]


def test_all_faults_are_told_at_once(client: "FlaskClient") -> None:
    found = problem(
        client.post("/fit", json={"model": 1, "gpu": [], "modle": 1, "batch_size": 0}), 422, "validation-error"
    )

    assert set(pointers(found)) == {"/model", "/gpu", "/modle", "/batch_size"}


@pytest.mark.parametrize(
    "text", ["1_000", "٣", " 5", "5 ", "+5", "5.5", "1e-3", "1e999999", "0x10", "", "-", "९", "1" * 500, "NaN"]
)
def test_a_count_in_a_query_is_a_number_as_json_spells_it(client: "FlaskClient", text: str) -> None:
    response = client.get(f"/fit?model=llama-2-7b&gpu=a100-sxm-80gb&context_tokens={quote(text)}")

    assert pointers(problem(response, 422, "validation-error")) == ["/context_tokens"]


@pytest.mark.parametrize("text", ["nan", "inf", "Infinity", "1_0", "0x1p3", "1e999", "", ".", "1e", "--1", "0,9"])
def test_a_number_in_a_query_is_plain(client: "FlaskClient", text: str) -> None:
    response = client.get(f"/fit?model=llama-2-7b&gpu=a100-sxm-80gb&memory_utilization={quote(text)}")

    assert pointers(problem(response, 422, "validation-error")) == ["/memory_utilization"]


@pytest.mark.parametrize("text", ["1", "True", "yes", "", "on"])
def test_a_flag_in_a_query_is_true_or_false(client: "FlaskClient", text: str) -> None:
    response = client.get(f"/fit?model=llama-2-7b&gpu=a100-sxm-80gb&expert_parallel={text}")

    assert pointers(problem(response, 422, "validation-error")) == ["/expert_parallel"]


def test_a_name_twice_in_a_query_is_refused(client: "FlaskClient") -> None:
    problem(client.get("/fit?model=llama-2-7b&gpu=a10&gpu=l40s"), 400, "duplicate-key")


@pytest.mark.parametrize("query", ["model=%ff", "model=%ED%A0%80", "%ff=1"])
def test_a_query_that_is_not_utf8_is_refused(client: "FlaskClient", query: str) -> None:
    problem(client.get("/fit", environ_overrides={"QUERY_STRING": query}), 400, "malformed-query")


def test_a_query_may_hold_utf8_that_was_not_escaped(client: "FlaskClient") -> None:
    raw = "model=é&gpu=a10".encode().decode("latin-1")

    found = problem(client.get("/fit", environ_overrides={"QUERY_STRING": raw}), 422, "unknown-model")

    assert "'é'" in found["detail"]


@pytest.mark.parametrize("name", ["config", "lengths"])
def test_an_object_does_not_go_into_a_query(client: "FlaskClient", name: str) -> None:
    found = problem(client.get("/fit", query_string={name: "{}"}), 422, "validation-error")

    assert "POST" in found["detail"]


@pytest.mark.parametrize("name", ["prompt_tokens", "prefill_sequences", "curve_batch_sizes", "curve_context_tokens"])
def test_what_only_traffic_takes_is_sent_there(client: "FlaskClient", name: str) -> None:
    by_body = problem(client.post("/fit", json={**QUESTION, name: 1}), 422, "validation-error")
    by_query = problem(client.get("/fit", query_string={**QUESTION, name: 1}), 422, "validation-error")

    assert by_body["detail"] == by_query["detail"] == f"{name} is asked of /traffic, not of /fit."


def test_a_post_with_a_query_is_refused(client: "FlaskClient") -> None:
    found = problem(client.post("/fit?kv_dtype=int8", json=QUESTION), 422, "validation-error")

    assert pointers(found) == ["/kv_dtype"]


@pytest.mark.parametrize("path", ["/fit", "/traffic"])
def test_a_query_of_separators_alone_names_nothing(client: "FlaskClient", path: str) -> None:
    for query in ("&", "&&"):
        answer = client.post(f"{path}?{query}", json=QUESTION)
        assert (answer.status_code, answer.get_json()) == (200, client.post(path, json=QUESTION).get_json())


@pytest.mark.parametrize("literal", ["[]", "[0]", "[1, -1]", "1", '"1"', "[[1]]", json.dumps([1] * 65)])
def test_a_curve_is_a_short_list_of_counts(client: "FlaskClient", literal: str) -> None:
    found = refused(client, literal, "curve_batch_sizes", "/traffic")

    assert pointers(found)[0].startswith("/curve_batch_sizes")


def test_a_bad_entry_of_a_list_is_named_by_its_index(client: "FlaskClient") -> None:
    found = problem(
        client.get("/traffic", query_string={**QUESTION, "curve_batch_sizes": "1,2,x"}), 422, "validation-error"
    )

    assert pointers(found) == ["/curve_batch_sizes/2"]


def test_the_rows_of_a_curve_are_multiplied_before_they_are_built(client: "FlaskClient") -> None:
    curves = {"curve_batch_sizes": list(range(1, 65)), "curve_context_tokens": list(range(1, 18))}

    found = problem(client.post("/traffic", json={**QUESTION, **curves}), 422, "validation-error")

    assert "1,088 rows" in found["detail"]


@pytest.mark.parametrize(
    "moment",
    [
        '"2026-01-01T00:00:00"',
        "1767225600",
        '"2026-13-01T00:00:00Z"',
        '"2026-01-01T24:00:00Z"',
        '"2026-01-01T00:00:60Z"',
        '"2026-01-01T00:00:00+99:00"',
        '"0001-01-01T00:00:00+14:00"',
        '"9999-12-31T23:59:59-14:00"',
        '"2026-01-01"',
        '"now"',
    ],
)
def test_a_time_has_an_offset_and_is_one(client: "FlaskClient", moment: str) -> None:
    assert pointers(refused(client, moment, "as_of")) == ["/as_of"]


@pytest.mark.parametrize(
    "literal, pointer",
    [
        ('{"a": 1e999}', "/config/a"),
        ('{"a": [1, {"b/c": 9007199254740993}]}', "/config/a/1/b~1c"),
        ('{"a": "\\udfff"}', "/config/a"),
        ("[]", "/config"),
        ('"x"', "/config"),
    ],
)
def test_a_config_holds_only_what_json_can_give_back(client: "FlaskClient", literal: str, pointer: str) -> None:
    assert pointers(refused(client, literal, "config")) == [pointer]


@pytest.mark.parametrize(
    "changes, pointer",
    [
        ({"gpu_count": 3, "tensor_parallel": 2}, "/gpu_count"),
        ({"gpu_count": 1, "tensor_parallel": 2}, "/gpu_count"),
        ({"context_limit_tokens": 1024}, "/context_limit_tokens"),
    ],
)
def test_values_that_contradict_each_other_are_refused(
    client: "FlaskClient", changes: dict[str, int], pointer: str
) -> None:
    assert pointer in pointers(problem(client.post("/fit", json={**QUESTION, **changes}), 422, "validation-error"))


@pytest.mark.parametrize("tensor", [3, 64, 1024])
def test_heads_that_do_not_divide_are_answered_or_refused_at_their_name(client: "FlaskClient", tensor: int) -> None:
    response = client.post("/fit", json={**QUESTION, "tensor_parallel": tensor})

    assert response.status_code == 200 or "/tensor_parallel" in pointers(strict(response.data))


@pytest.mark.parametrize("question", [{}, {"model": "llama-2-7b"}, {"gpu": "a10"}])
def test_a_question_without_its_subject_is_refused(client: "FlaskClient", question: dict[str, str]) -> None:
    by_query = problem(client.get("/fit", query_string=question), 422, "validation-error")

    assert by_query["errors"] == problem(client.post("/fit", json=question), 422, "validation-error")["errors"]


def test_memory_smaller_than_the_weights_is_a_good_answer(client: "FlaskClient") -> None:
    answer = client.post("/fit", json={**QUESTION, "memory_bytes": 1}).get_json()

    assert (answer["fits"], answer["max_sequences"]) == (False, 0)
    assert answer["shortage"]


def test_a_context_beyond_the_models_own_is_answered_with_a_warning(client: "FlaskClient") -> None:
    answer = client.post("/fit", json={**QUESTION, "context_tokens": 8192}).get_json()

    assert answer["warnings"]
