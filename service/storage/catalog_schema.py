"""The JSON schemas that catalog files are checked against, `catalog/schema/<kind>.json` (Draft 2020-12)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError, best_match
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from service.domain.catalog import CatalogKind
from service.domain.configs.fields import shown
from service.domain.errors import Fault, nearest, pointer_step

_LONGEST_DETAIL: Final = 200
_LONGEST_NAME: Final = 64


class SchemaMissingError(LookupError):
    """There are files of a kind that has no schema."""


class CatalogSchemas:
    """Validators by kind, built once; a schema may refer to another by its file name."""

    def __init__(self, folder: Path) -> None:
        self._documents = {path.name: json.loads(path.read_text("utf-8")) for path in sorted(folder.glob("*.json"))}
        resources = [(name, DRAFT202012.create_resource(document)) for name, document in self._documents.items()]
        by_id = [(resource.id(), resource) for _, resource in resources]
        known: list[tuple[str, Resource[Any]]] = [*resources, *((uri, resource) for uri, resource in by_id if uri)]
        self._registry: Registry[Any] = Registry().with_resources(known)
        self._validators: dict[CatalogKind, Draft202012Validator] = {}

    def faults(self, kind: CatalogKind, facts: Mapping[str, Any]) -> Iterator[Fault]:
        """What is wrong with an entry, with pointers into its facts; raises SchemaMissingError."""
        for error in self._validator(kind).iter_errors(facts):
            # Of alternatives none of which holds, the one that came nearest says more than their list.
            yield from _told(best_match([error]) or error)

    def _validator(self, kind: CatalogKind) -> Draft202012Validator:
        if kind not in self._validators:
            document = self._documents.get(f"{kind}.json")
            if document is None:
                raise SchemaMissingError(f"There is no schema/{kind}.json to check the {kind} files with.")
            checker = Draft202012Validator.FORMAT_CHECKER
            self._validators[kind] = Draft202012Validator(document, registry=self._registry, format_checker=checker)
        return self._validators[kind]


def json_pointer(error: ValidationError) -> str:
    """Where in the document an error is, as RFC 6901 writes it."""
    return "".join(map(_step, error.absolute_path))


def _step(part: object) -> str:
    return f"/{pointer_step(str(part))}"


def _told(error: ValidationError) -> Iterator[Fault]:
    """An error as it is answered; names that do not belong one by one, each with the one that was perhaps meant."""
    place = json_pointer(error)
    given = error.instance
    if error.validator != "additionalProperties" or not isinstance(given, Mapping):
        yield Fault(place, _sentence(error)[:_LONGEST_DETAIL])
        return
    known = error.schema.get("properties", {}) if isinstance(error.schema, Mapping) else {}
    for name in given:
        if name not in known:
            near = nearest(name[:_LONGEST_NAME], known)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            yield Fault(place + _step(name), f"There is no {name[:_LONGEST_NAME]!r} here{hint}.", tuple(near))


def _sentence(error: ValidationError) -> str:
    """What the library says of an error, with values as JSON writes them; it begins with the value, whole."""
    value = shown(error.instance)
    wanted: Any = error.validator_value
    if error.validator == "type":
        return f"{value} is not of type {' or '.join([wanted] if isinstance(wanted, str) else wanted)}"
    if error.validator == "enum":
        return f"{value} is not one of {', '.join(map(shown, wanted))}"
    written = repr(error.instance)
    return f"{value}{error.message.removeprefix(written)}" if error.message.startswith(written) else error.message
