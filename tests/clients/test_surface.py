"""The SDK against the service's own description: neither may have what the other does not know."""

from collections.abc import Callable
from dataclasses import fields
from typing import get_args, get_type_hints
from unittest.mock import patch

import pytest
from flask import Flask

import kvquote_client
from kvquote_client import (
    Client,
    answers,
    catalog_answers,
    filters,
    learning_answers,
    log_answers,
    measurement_answers,
    question,
    traffic_answers,
)
from kvquote_client.reading import Answer, read
from kvquote_client.transport import Reply
from tests.clients.describing import Description

Call = Callable[[Client], object]
KINDS = ("models", "gpus", "instances", "dtypes", "engines")
ID = "0b5f2d0e-8f0c-4c6e-9d57-3f1c2b1d9a10"


def entry_calls(kind: str) -> dict[tuple[str, str], Call]:
    """What can be done with one of the catalog's resources."""
    return {
        ("GET", f"/{kind}"): lambda c: list(getattr(c, kind).list()),
        ("GET", f"/{kind}/{{name}}"): lambda c: getattr(c, kind).get("n"),
        ("PUT", f"/{kind}/{{name}}"): lambda c: getattr(c, kind).put("n", {}, etag='"t"'),
        ("DELETE", f"/{kind}/{{name}}"): lambda c: getattr(c, kind).delete("n", etag='"t"'),
        ("GET", f"/{kind}/{{name}}/revisions"): lambda c: list(getattr(c, kind).revisions("n")),
    }


CALLS: dict[tuple[str, str], Call] = {
    ("POST", "/fit"): lambda c: c.fit(model="m"),
    ("POST", "/traffic"): lambda c: c.traffic(model="m"),
    ("POST", "/logs"): lambda c: c.logs("INFO", gpu="g"),
    **{operation: call for kind in KINDS for operation, call in entry_calls(kind).items()},
    ("POST", "/models/inspect"): lambda c: c.models.inspect({}),
    ("POST", "/models/import"): lambda c: c.models.import_("a/b", {}),
    ("POST", "/measurements"): lambda c: c.measurements.upload([{}]),
    ("GET", "/measurements"): lambda c: list(c.measurements.list()),
    ("PUT", "/measurements/{measurement_id}"): lambda c: c.measurements.put({"id": ID}),
    ("GET", "/measurements/{measurement_id}"): lambda c: c.measurements.get(ID),
    ("GET", "/probes"): lambda c: list(c.probes()),
    ("GET", "/calibrations"): lambda c: list(c.calibrations.list()),
    ("GET", "/accuracy"): lambda c: list(c.accuracy.list()),
    ("GET", "/livez"): lambda c: c.alive(),
    ("GET", "/readyz"): lambda c: c.ready(),
    ("GET", "/metrics"): lambda c: c.metrics(),
    ("GET", "/problems/{name}"): lambda c: c.problem("n"),
}
# Questions are asked by POST, so that a config and a long command go the same way as everything else.
LEFT_OUT = {("GET", "/fit"), ("GET", "/traffic")}
# Of no use where the answer is read by a program that turns the pages itself.
NO_FILTER = {"format"}
FILTERS: dict[str, type] = {
    "/models": filters.ModelFilters,
    "/gpus": filters.GpuFilters,
    "/instances": filters.InstanceFilters,
    "/dtypes": filters.DtypeFilters,
    "/engines": filters.EntryFilters,
    "/measurements": filters.MeasurementFilters,
    "/probes": filters.PageFilters,
    "/calibrations": filters.CalibrationFilters,
    "/accuracy": filters.AccuracyFilters,
    "/gpus/{name}/revisions": filters.PageFilters,
}
QUESTIONS: dict[str, type] = {"FitQuestion": question.Question, "TrafficQuestion": question.TrafficQuestion}
MODULES = (answers, traffic_answers, log_answers, catalog_answers, measurement_answers, learning_answers)
# What a program is not given as a class: pages are iterated, a problem is an error, the echo is a mapping.
NO_CLASS = {
    *("FitQuestion", "TrafficQuestion", "LogQuestion", "ImportQuestion", "InspectQuestion", "EchoedQuestion"),
    *("Problem", "ProblemFault", "Liveness", "EntryHistory"),
}
JSON_KINDS = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}


@pytest.fixture(scope="module")
def described(app: Flask) -> Description:
    client = app.test_client()
    return Description(client.get("/openapi.json").get_json())


def answer_classes() -> dict[str, type[Answer]]:
    found = {name: kind for module in MODULES for name, kind in vars(module).items() if isinstance(kind, type)}
    return {name: kind for name, kind in sorted(found.items()) if issubclass(kind, Answer)}


def test_every_operation_has_a_method_or_is_left_out_on_purpose(described: Description) -> None:
    assert described.operations() == CALLS.keys() | LEFT_OUT


@pytest.mark.parametrize("full", [False, True], ids=["as-little-as-promised", "every-list-filled"])
@pytest.mark.parametrize("operation", CALLS, ids=" ".join)
def test_a_method_asks_for_its_operation_and_reads_its_answer(
    operation: tuple[str, str], full: bool, described: Description
) -> None:
    method, path = operation
    body = described.answer(method, path, full=full)
    asked: list[tuple[str, str]] = []

    def request(method: str, path: str, **_how: object) -> Reply:
        asked.append((method, path))
        paged = body if not isinstance(body, dict) else {**body, **({"next_cursor": None} if "items" in body else {})}
        return Reply(200, {"ETag": '"t"'}, paged)

    with Client("http://a") as client, patch.object(client.transport, "request", request):
        CALLS[operation](client)
    assert asked == [(method, path.replace("{name}", "n").replace("{measurement_id}", ID))]


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_takes_exactly_the_names_of_the_service(name: str, described: Description) -> None:
    assert QUESTIONS[name].__annotations__.keys() == described.schema(name)["properties"].keys()


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_name_of_a_question_takes_what_the_service_takes(name: str, described: Description) -> None:
    properties = described.schema(name)["properties"]
    hints = get_type_hints(QUESTIONS[name])
    simple = {key: JSON_KINDS[kind] for key, value in properties.items() if (kind := value["type"][0]) in JSON_KINDS}

    assert {key: hints[key].__name__ for key in simple if key != "as_of"} == {
        key: kind for key, kind in simple.items() if key != "as_of"
    }


@pytest.mark.parametrize("path", FILTERS)
def test_a_list_takes_exactly_the_filters_of_the_service(path: str, described: Description) -> None:
    assert FILTERS[path].__annotations__.keys() == described.query_names(path) - NO_FILTER


def test_a_log_is_asked_with_exactly_the_names_of_a_question(described: Description) -> None:
    assert question.Question.__annotations__.keys() | {"log"} == described.schema("LogQuestion")["properties"].keys()


def test_an_import_takes_exactly_the_names_of_the_service(described: Description) -> None:
    names = filters.ImportFacts.__annotations__.keys() | {"hub_id", "config", "gguf_header"}

    assert names == described.schema("ImportQuestion")["properties"].keys()


def test_every_schema_of_an_answer_has_a_class(described: Description) -> None:
    schemas = {name for name in described._components["schemas"] if not name.endswith(("Facts", "Page"))}

    assert schemas - NO_CLASS == answer_classes().keys() - {"Answer", "Quoted"}


@pytest.mark.parametrize("name", [name for name in answer_classes() if name not in {"Answer", "Quoted"}])
def test_a_class_has_an_attribute_for_each_key_and_says_which_may_be_null(name: str, described: Description) -> None:
    schema = described.schema(name)
    declared = {each.name: str(each.type) for each in fields(answer_classes()[name])}

    assert declared.keys() - {"raw", "etag"} == set(schema["required"])
    assert {key for key, kind in declared.items() if kind.endswith("None")} - {"etag"} == {
        key for key, value in schema["properties"].items() if "anyOf" in value or "null" in value.get("type", "")
    }


@pytest.mark.parametrize("name", [name for name in answer_classes() if name not in {"Answer", "Quoted"}])
def test_a_class_reads_numbers_texts_lists_and_objects_as_what_they_are(name: str, described: Description) -> None:
    kind = answer_classes()[name]
    value = described.value(described.schema(name), full=True)
    made = read(kind, value)

    for each in fields(kind):
        seen, declared = getattr(made, each.name), str(each.type).removesuffix(" | None")
        if declared.startswith("tuple"):
            assert isinstance(seen, tuple), each.name
        elif declared in answer_classes():
            assert type(seen) is answer_classes()[declared], each.name


def test_what_is_exported_is_there() -> None:
    assert [name for name in kvquote_client.__all__ if getattr(kvquote_client, name, None) is None] == []


def test_what_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="Fut"):
        _ = kvquote_client.Fut


def test_the_two_packages_of_the_distribution_have_one_version() -> None:
    import kvquote_probe

    assert kvquote_probe.__version__ == kvquote_client.__version__


def test_every_word_of_help_is_there() -> None:
    tables = [*QUESTIONS.values(), *FILTERS.values()]
    hints = [hint for table in tables for hint in get_type_hints(table, include_extras=True).values()]

    assert all(isinstance(get_args(hint)[1], str) and get_args(hint)[1] for hint in hints)
