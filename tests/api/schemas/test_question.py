"""The names that questions are asked with."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from marshmallow import ValidationError as SchemaError

from service.api.limits import SPANS
from service.api.schemas.closed import ClosedSchema
from service.api.schemas.fields import AskedField
from service.api.schemas.question import FIT_BODY, FIT_QUERY, TRAFFIC_BODY, TRAFFIC_QUERY
from service.domain.echo import NAMES
from service.domain.errors import ValidationError

SCHEMAS = [FIT_BODY, FIT_QUERY, TRAFFIC_BODY, TRAFFIC_QUERY]
IDS = ["fit body", "fit query", "traffic body", "traffic query"]
VALUES = st.none() | st.booleans() | st.integers(-5, 5000) | st.floats() | st.sampled_from(["auto", "x", "", "vllm"])


def test_the_names_are_those_of_the_domain_in_its_order() -> None:
    assert [name for name in NAMES if name in FIT_BODY.fields] == list(FIT_BODY.fields)
    assert set(TRAFFIC_BODY.fields) == set(NAMES)


@pytest.mark.parametrize("schema", SCHEMAS, ids=IDS)
def test_every_name_is_described(schema: ClosedSchema) -> None:
    for field in schema.fields.values():
        assert isinstance(field, AskedField)
        assert field.metadata["description"].endswith(".")
        assert field.described()["type"]


def test_every_span_belongs_to_a_name() -> None:
    assert set(SPANS) <= set(TRAFFIC_BODY.fields)


@pytest.mark.parametrize("schema", SCHEMAS, ids=IDS)
def test_every_example_can_be_read(schema: ClosedSchema) -> None:
    for name, field in schema.fields.items():
        for example in field.metadata.get("examples", []):
            assert schema.read({name: example})


@given(given=st.dictionaries(st.sampled_from([*NAMES, "modle"]), VALUES, max_size=6))
def test_reading_agrees_with_marshmallows_own_loading(given: dict[str, Any]) -> None:
    named = {name: value for name, value in given.items() if value is not None}
    try:
        loaded: dict[str, Any] | None = TRAFFIC_BODY.load(named, partial=True)
    except SchemaError:
        loaded = None
    try:
        read: dict[str, Any] | None = TRAFFIC_BODY.read(named)
    except ValidationError:
        read = None

    assert read == loaded
