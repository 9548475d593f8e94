"""The parts that answers are made of. They document and are tested against; answers themselves are plain dicts.

Every key is always there (required), null means that it does not apply, and clients ignore keys they do not know.
"""

from typing import Any

from marshmallow import EXCLUDE, Schema, fields
from marshmallow.validate import Length, Range


class AnswerSchema(Schema):
    """Base of all answers: open, so that keys may be added."""

    class Meta:
        unknown = EXCLUDE


def whole(about: str, *, null: bool = False, least: int | None = 0) -> fields.Integer:
    """An exact count: bytes, tokens, sequences."""
    return fields.Integer(
        strict=True, required=True, allow_none=null, validate=Range(min=least), metadata={"description": about}
    )


def number(about: str, *, null: bool = False) -> fields.Float:
    """A finite number at or above zero."""
    return fields.Float(required=True, allow_none=null, validate=Range(min=0), metadata={"description": about})


def text(about: str, *, null: bool = False) -> fields.String:
    """A string; where its values are a set, the description names them, since the set may grow."""
    return fields.String(required=True, allow_none=null, metadata={"description": about})


def flag(about: str) -> fields.Boolean:
    """A boolean, never null."""
    return fields.Boolean(required=True, metadata={"description": about})


def part(schema: Schema, about: str, *, null: bool = False) -> fields.Nested:
    """An object of its own schema."""
    return fields.Nested(schema, required=True, allow_none=null, metadata={"description": about})


def rows(schema: Schema, about: str, *, null: bool = False) -> fields.List[Any]:
    """A list of objects."""
    return fields.List(fields.Nested(schema), required=True, allow_none=null, metadata={"description": about})


def sentences(about: str) -> fields.List[Any]:
    """A list of sentences, empty rather than null."""
    return fields.List(fields.String(), required=True, metadata={"description": about})


def bounds(entry: fields.Field[Any], about: str, *, null: bool = False) -> fields.List[Any]:
    """Low and high."""
    return fields.List(entry, required=True, allow_none=null, validate=Length(equal=2), metadata={"description": about})


def change(about: str, *, null: bool = False) -> fields.Dict:
    """Names of the question with other values."""
    return fields.Dict(keys=fields.String(), required=True, allow_none=null, metadata={"description": about})
