"""Closed input: every name that is not known is refused, with the known names nearest to it."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

from marshmallow import RAISE, Schema

from service.api import limits
from service.api.schemas.fields import AskedField, MisreadError, escaped
from service.domain.errors import Fault, ValidationError, nearest

Asked = dict[str, Any]
_Readers = Mapping[str, Callable[[Any], object]]


class ClosedSchema(Schema):
    """A schema of AskedFields that reads what is given and nothing else.

    Schema.load walks every declared field, given or not: for the eight names of a usual question out of sixty that
    costs more than the arithmetic of the answer. `read` walks the given ones, and stops at the first fifty faults.
    """

    class Meta:
        unknown = RAISE

    # Known names that this payload does not take, and where they do belong.
    elsewhere: ClassVar[Mapping[str, str]] = {}
    # Names whose values do not go into a query string.
    body_only: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - marshmallow's own options
        super().__init__(**options)
        asked = {name: field for name, field in self.fields.items() if isinstance(field, AskedField)}
        self._readers: _Readers = {name: field.read for name, field in asked.items()}
        self._text_readers: _Readers = {name: field.read_text for name, field in asked.items()}

    @classmethod
    def for_query(cls) -> Self:
        """The same schema for a query string: without the names that only a body holds, and without null."""
        schema = cls(exclude=cls.body_only)
        for field in schema.fields.values():
            if isinstance(field, AskedField):
                field.nullable = False
        return schema

    def read(self, given: Mapping[str, Any]) -> Asked:
        """The names of a JSON object that are not null, each in its field's type.

        Raises ValidationError with every fault, at most fifty.
        """
        return self._read(given, self._readers)

    def read_texts(self, given: Mapping[str, str]) -> Asked:
        """The names of a query string, each in its field's type; raises as `read` does."""
        return self._read(given, self._text_readers)

    def contradictions(self, asked: Asked) -> list[Fault]:  # noqa: ARG002 - what a subclass overrides
        """Faults that lie between fields."""
        return []

    def _read(self, given: Mapping[str, Any], readers: _Readers) -> Asked:
        asked: Asked = {}
        faults: list[Fault] = []
        for name, value in given.items():
            read = readers.get(name)
            if read is None:
                faults.append(self._unknown(name))
            elif value is not None:
                try:
                    asked[name] = read(value)
                except MisreadError as error:
                    faults.append(Fault(f"/{name}{error.at}", f"{name}{error.at} {error.sentence}.", error.nearest))
            if len(faults) == limits.FAULTS_LISTED:
                break
        faults = faults or self.contradictions(asked)
        if faults:
            raise ValidationError(*faults)
        return asked

    def _unknown(self, name: str) -> Fault:
        shown = name[: limits.POINTER_CHARACTERS]
        pointer = f"/{escaped(shown)}"
        if name in self.elsewhere:
            return Fault(pointer, f"{name} {self.elsewhere[name]}.")
        if name in self.body_only:
            return Fault(pointer, f"{name} does not go into a query string: POST the question as JSON.")
        known = nearest(shown, self._readers)
        hint = f" Did you mean {known[0]!r}?" if known else ""
        return Fault(pointer, f"There is no name {shown!r} here.{hint}", known)
