"""A desk at which catalog entries are written: an application on a small catalog, and tokens of each kind."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from tests.conftest import wired_app
from tests.databases import CATALOG

if TYPE_CHECKING:
    from flask import Flask
    from flask.testing import FlaskClient
    from werkzeug.test import TestResponse

    from service.storage.tokens import Scope

CARD, MACHINE, MODEL = "/gpus/a100-sxm-80gb", "/instances/aws-p4de-24xlarge", "/models/llama-2-7b"
# Enough of the catalog for a quote, an entry of each kind, and one that others name.
ENTRIES = (
    *("gpus/a100-sxm-80gb", "gpus/a100-sxm-80gb-mig-1g-10gb", "gpus/a10", "gpus/a10g", "gpus/h100-sxm-80gb"),
    *("models/llama-2-7b", "models/qwen2-7b-instruct", "instances/aws-p4de-24xlarge", "instances/aws-g5-2xlarge"),
    "engines/none",
    # All of them: quotes try others than the one that was asked for.
    *(f"dtypes/{path.stem}" for path in sorted((CATALOG / "dtypes").glob("*.yaml"))),
)


@dataclass(frozen=True, slots=True)
class Desk:
    """What tests write with: `client` of one application, and headers with tokens."""

    app: "Flask"
    client: "FlaskClient"
    writer: Mapping[str, str]
    reader: Mapping[str, str]

    def read(self, path: str) -> tuple[dict[str, Any], str]:
        """The facts of an entry and its tag."""
        response = self.client.get(path)
        assert response.status_code == 200, response.text
        return response.get_json()["facts"], response.headers["ETag"]

    def put(self, path: str, facts: object, **more: str) -> "TestResponse":
        """Write with the writer's token; `if_match="…"` and the like are headers, `query` is the query string."""
        return self.client.put(f"{path}{more.pop('query', '')}", json=facts, headers={**self.writer, **headers(more)})

    def change(self, path: str, **facts: object) -> "TestResponse":
        """Change some facts of an entry, on the condition that it is as it was just read."""
        before, tag = self.read(path)
        return self.put(path, {**before, **facts}, if_match=tag)

    def create(self, path: str, **facts: object) -> "TestResponse":
        """Create an entry with facts of another, a card's by default."""
        return self.put(path, {**card(path.rpartition("/")[2]), **facts}, if_none_match="*")

    def delete(self, path: str, tag: str | None = None) -> "TestResponse":
        """Delete an entry, by default as it is now."""
        tag = tag or self.read(path)[1]
        return self.client.delete(path, headers={**self.writer, "If-Match": tag})


def headers(words: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "-").title(): value for name, value in words.items()}


def stored_facts(path: str) -> dict[str, Any]:
    """The facts of a file of the catalog, as they are loaded."""
    from service.storage.canonical import whole_numbers
    from service.storage.catalog_yaml import read_yaml
    from service.storage.migrations import data_folder

    facts: dict[str, Any] = whole_numbers(read_yaml(data_folder("catalog") / f"{path}.yaml"))
    return facts


def card(gpu_id: str) -> dict[str, Any]:
    """Facts of a new card: those of an A10 without its names."""
    return {**stored_facts("gpus/a10"), "id": gpu_id, "aliases": []}


def fill(database_url: str) -> None:
    """Store ENTRIES as files would."""
    from service.domain.catalog import CatalogKind
    from service.storage.catalog import Change, apply_changes
    from service.storage.database import make_engine, writing

    engine = make_engine(database_url)
    changes = [
        Change(CatalogKind(path.partition("s/")[0]), path.rpartition("/")[2], stored_facts(path)) for path in ENTRIES
    ]
    with writing(engine) as connection:
        apply_changes(connection, changes, "tests", "files", "a small catalog")
    engine.dispose()


def bearer(app: "Flask", *scopes: "Scope", lifetime: timedelta | None = None) -> dict[str, str]:
    """Headers with a new token."""
    from service.api.services import services_of
    from service.storage.database import writing
    from service.storage.tokens import create_token

    with writing(services_of(app).engine) as connection:
        return {"Authorization": f"Bearer {create_token(connection, 'tests', scopes, 'tests', lifetime)[1]}"}


@contextmanager
def opened_desk(database_url: str, **environment: str) -> Iterator[Desk]:
    from service.storage.tokens import Scope

    with wired_app(database_url, **environment) as app:
        yield Desk(app, app.test_client(), bearer(app, Scope.CATALOG_WRITE), bearer(app, Scope.READ))
