"""Schemathesis reads the description and asks what it allows and what it forbids.

Its strategies are used without its pytest plugin, which reaches into pytest's insides.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import SearchStrategy
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS, load_all_checks

from service.api import openapi_document
from service.resources import RESOURCES

if TYPE_CHECKING:
    from flask import Flask

METHODS = {"get", "post", "put", "delete"}
OPERATIONS = [
    (method.upper(), path)
    for path, methods in openapi_document.build(RESOURCES)["paths"].items()
    for method in METHODS & set(methods)
]
QUESTIONS = [(method, path) for method, path in OPERATIONS if path in {"/fit", "/traffic"}]
load_all_checks()
# A name may be well-formed and still be no model's: the schema cannot tell, so a refusal of valid data is no fault.
NOT_CHECKED: Any = CHECKS.get_by_names(["positive_data_acceptance"])


@pytest.fixture(scope="module")
def described(app: "Flask") -> schemathesis.BaseSchema:
    return schemathesis.openapi.from_wsgi("/openapi.json", app)


def ask(
    cases: SearchStrategy[schemathesis.Case[Any]], changes: Mapping[str, str] = MappingProxyType({}), examples: int = 50
) -> None:
    @given(case=cases)
    @settings(max_examples=examples, suppress_health_check=list(HealthCheck))
    def asked(case: schemathesis.Case[Any]) -> None:
        names = case.query if case.method == "GET" else case.body
        if isinstance(names, dict):
            names.update(changes)
        case.call_and_validate(excluded_checks=NOT_CHECKED)

    asked()


@pytest.mark.parametrize("method, path", sorted(OPERATIONS))
def test_whatever_it_allows_is_answered_as_described(
    described: schemathesis.BaseSchema, method: str, path: str
) -> None:
    # Facts of an engine take a second to make up, most of which its schema of a thousand lines then refuses.
    ask(described[path][method].as_strategy(), examples=15 if path.startswith("/engines") else 50)


@pytest.mark.parametrize("method, path", sorted(QUESTIONS))
def test_whatever_it_forbids_is_refused(described: schemathesis.BaseSchema, method: str, path: str) -> None:
    ask(described[path][method].as_strategy(generation_mode=GenerationMode.NEGATIVE))


@pytest.mark.parametrize("method, path", sorted(QUESTIONS))
def test_whatever_is_asked_about_a_known_model_is_answered_as_described(
    described: schemathesis.BaseSchema, method: str, path: str
) -> None:
    ask(described[path][method].as_strategy(), {"model": "llama-2-7b", "gpu": "a10", "engine": "none"})
