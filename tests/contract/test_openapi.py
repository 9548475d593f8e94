"""The OpenAPI document: valid, complete, and true."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from openapi_spec_validator import OpenAPIV31SpecValidator

from service import __version__
from service.api.problem_documents import PROBLEM_TYPE

if TYPE_CHECKING:
    from flask import Flask
    from flask.testing import FlaskClient

    from tests.golden_files import Golden

Operation = dict[str, Any]
# The description itself, and the page that shows it.
NOT_OF_THE_API = {("GET", "/"), ("GET", "/openapi.json"), ("GET", "/docs"), ("GET", "/static/{name}")}
CLOSED = {"FitQuestion", "TrafficQuestion", "InspectQuestion", "ImportQuestion", "LogQuestion"}


def operations(spec: dict[str, Any]) -> Iterator[tuple[str, str, Operation]]:
    for path, methods in spec["paths"].items():
        for method, operation in methods.items():
            if method != "parameters":
                yield method.upper(), path, operation


def schemas(spec: dict[str, Any], ending: str) -> dict[str, dict[str, Any]]:
    return {name: schema for name, schema in spec["components"]["schemas"].items() if name.endswith(ending)}


def own_schemas(spec: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """All but the schemas of the catalog's files, which have rules and tests of their own."""
    return {name: schema for name, schema in spec["components"]["schemas"].items() if not name.endswith("Facts")}


def test_what_a_write_takes_is_what_a_file_of_the_catalog_holds(spec: dict[str, Any]) -> None:
    bodies = {
        operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
        for method, path, operation in operations(spec)
        if method == "PUT" and not path.startswith("/measurements")
    }

    assert bodies == {"ModelFacts", "GpuFacts", "InstanceFacts", "DtypeFacts", "EngineFacts"}
    gpu = spec["components"]["schemas"]["GpuFacts"]
    assert gpu["additionalProperties"] is False
    assert gpu["properties"]["provenance"]["$ref"] == "#/components/schemas/GpuFacts/$defs/provenance"


def test_who_writes_needs_a_token_and_a_condition(spec: dict[str, Any]) -> None:
    for method, path, operation in operations(spec):
        conditions = {
            spec["components"]["parameters"][parameter["$ref"].rpartition("/")[2]]["name"]
            for parameter in operation.get("parameters", ())
            if "$ref" in parameter
        }
        uploads = method in {"POST", "PUT"} and path.startswith("/measurements")
        writes = method in {"PUT", "DELETE"} or path == "/models/import" or uploads
        assert ("security" in operation) == writes, path
        assert ("If-Match" in conditions) == (writes and not uploads), path


def test_it_is_valid(spec: dict[str, Any]) -> None:
    assert spec["openapi"] == "3.1.1"
    assert list(OpenAPIV31SpecValidator(spec).iter_errors()) == []


def test_it_is_what_was_agreed(spec: dict[str, Any], golden: "Golden") -> None:
    golden("openapi", spec)


def test_it_names_the_service_and_its_version(spec: dict[str, Any]) -> None:
    assert (spec["info"]["title"], spec["info"]["version"]) == ("kvquote", __version__)
    assert spec["servers"] == [{"url": "/"}]


def test_every_route_is_described_but_the_description_and_its_page(spec: dict[str, Any], app: "Flask") -> None:
    routes = {
        (method, re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", rule.rule))
        for rule in app.url_map.iter_rules()
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
    }

    assert {(method, path) for method, path, _ in operations(spec)} == routes - NOT_OF_THE_API


def test_every_operation_has_a_name_of_its_own_and_a_summary(spec: dict[str, Any]) -> None:
    names = [operation["operationId"] for _, _, operation in operations(spec)]

    assert len(names) == len(set(names))
    assert all(re.fullmatch(r"(get|list|post|inspect|import|put|delete)[A-Z][A-Za-z]+", name) for name in names)
    assert all(operation["summary"] and operation["tags"] for _, _, operation in operations(spec))


def test_every_operation_answers_its_errors_as_problems(spec: dict[str, Any]) -> None:
    assert all("DEFAULT_ERROR" in str(operation["responses"]["default"]) for _, _, operation in operations(spec))
    assert list(spec["components"]["responses"]["DEFAULT_ERROR"]["content"]) == [PROBLEM_TYPE]


def test_every_tag_says_what_it_is_about(spec: dict[str, Any]) -> None:
    described = {tag["name"] for tag in spec["tags"] if tag["description"]}

    assert {tag for _, _, operation in operations(spec) for tag in operation["tags"]} == described


def test_questions_are_closed_and_answers_are_open(spec: dict[str, Any]) -> None:
    for name, schema in own_schemas(spec).items():
        assert schema.get("additionalProperties") == (False if name in CLOSED else None)


def test_every_key_of_an_answer_is_always_there(spec: dict[str, Any]) -> None:
    for name, schema in own_schemas(spec).items():
        if name not in CLOSED:
            assert sorted(schema["properties"]) == schema["required"], name


def test_every_property_has_a_type(spec: dict[str, Any]) -> None:
    for name, schema in own_schemas(spec).items():
        for key, described in schema["properties"].items():
            assert {"type", "$ref", "anyOf"} & set(described), f"{name}.{key}"


def test_every_name_says_what_it_means(spec: dict[str, Any]) -> None:
    for name, schema in own_schemas(spec).items():
        for key, described in schema["properties"].items():
            assert described.get("description"), f"{name}.{key}"


def test_an_open_bound_is_an_exclusive_one(spec: dict[str, Any]) -> None:
    share = spec["components"]["schemas"]["FitQuestion"]["properties"]["memory_utilization"]

    assert share["exclusiveMinimum"] == 0
    assert share["maximum"] == 1
    assert "minimum" not in share


def test_null_is_for_bodies_and_not_for_queries(spec: dict[str, Any]) -> None:
    for schema in (spec["components"]["schemas"]["FitQuestion"], spec["components"]["schemas"]["TrafficQuestion"]):
        assert all("null" in described["type"] for described in schema["properties"].values())
    for parameter in spec["paths"]["/fit"]["get"]["parameters"]:
        assert "null" not in str(parameter)


def test_lists_in_a_query_are_comma_separated(spec: dict[str, Any]) -> None:
    parameters = {parameter.get("name"): parameter for parameter in spec["paths"]["/traffic"]["get"]["parameters"]}

    assert (parameters["curve_batch_sizes"]["style"], parameters["curve_batch_sizes"]["explode"]) == ("form", False)


def test_a_query_takes_the_same_names_as_a_body_but_objects(spec: dict[str, Any]) -> None:
    for path, schema in (("/fit", "FitQuestion"), ("/traffic", "TrafficQuestion")):
        parameters = {
            parameter["name"] for parameter in spec["paths"][path]["get"]["parameters"] if "name" in parameter
        }
        assert parameters == set(spec["components"]["schemas"][schema]["properties"]) - {"config", "lengths"}


def test_every_example_is_answered(spec: dict[str, Any], client: "FlaskClient") -> None:
    asked = 0
    for _, path, operation in operations(spec):
        if "security" in operation:
            continue
        for content in operation.get("requestBody", {}).get("content", {}).values():
            for example in content.get("examples", {}).values():
                asked += 1
                assert client.post(path, json=example["value"]).status_code == 200
    assert asked >= 4
