"""What probes send, as tests send it: rows, uploads, and a lab of an application on a small catalog."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from tests.api.desk import bearer, stored_facts
from tests.conftest import wired_app

if TYPE_CHECKING:
    from flask import Flask
    from flask.testing import FlaskClient
    from werkzeug.test import TestResponse

PROBE = str(UUID(int=7, version=4))
H100 = "NVIDIA H100 80GB HBM3"


def row(**more: object) -> dict[str, Any]:
    """A good row with an id of its own; `more` replaces its parts."""
    return {
        "id": str(uuid4()),
        "probe_id": PROBE,
        "kind": "memory_bandwidth",
        "measured_at": "2026-11-01T10:00:00Z",
        "gpu": {"name": H100},
        "values": {"bytes_per_second": 2.9e12, "access": "read"},
        **more,
    }


def unmatched_row() -> dict[str, Any]:
    return row(gpu={"name": "RTX 9090"})


def impossible_row() -> dict[str, Any]:
    return row(values={"bytes_per_second": 9e12})


def invalid_row() -> dict[str, Any]:
    return row(values={"bytes_per_second": -1})


@dataclass(frozen=True, slots=True)
class Lab:
    """Where measurements are sent to."""

    app: "Flask"
    client: "FlaskClient"
    probe: Mapping[str, str]

    def upload(self, *rows: object, **envelope: object) -> "TestResponse":
        return self.client.post("/measurements", json={"items": list(rows), **envelope}, headers=self.probe)

    def put(self, measured: Mapping[str, Any], path_id: str | None = None) -> "TestResponse":
        return self.client.put(f"/measurements/{path_id or measured['id']}", json=measured, headers=self.probe)

    def counts(self, *rows: object) -> dict[str, int]:
        """Rows by verdict, without those that there are none of."""
        answer = self.upload(*rows)
        assert answer.status_code == 200, answer.text
        return {verdict: count for verdict, count in answer.get_json()["counts"].items() if count}

    def listed(self, query: str = "") -> list[dict[str, Any]]:
        """Every row of a list, page after page."""
        items: list[dict[str, Any]] = []
        path = f"/measurements?{query}"
        while True:
            answer = self.client.get(path)
            assert answer.status_code == 200, answer.text
            items += answer.get_json()["items"]
            if not answer.get_json()["next_cursor"]:
                return items
            path = f"/measurements?{query}&cursor={answer.get_json()['next_cursor']}"

    def clear(self) -> None:
        """Forget every row, but not the names that the store has seen."""
        from sqlalchemy import delete

        from service.api.services import services_of
        from service.storage.database import writing
        from service.storage.measurement_tables import MEASUREMENT, MEASUREMENT_PROBE

        with writing(services_of(self.app).engine) as connection:
            connection.execute(delete(MEASUREMENT))
            connection.execute(delete(MEASUREMENT_PROBE))

    def stored(self) -> int:
        """Rows in the database."""
        from sqlalchemy import func, select

        from service.api.services import services_of
        from service.storage.measurement_tables import MEASUREMENT

        with services_of(self.app).engine.connect() as connection:
            return connection.scalar(select(func.count()).select_from(MEASUREMENT)) or 0


# What the rows above need, and what is compared with them.
ENTRIES = ("gpus/h100-sxm-80gb", "gpus/a10", "models/llama-2-7b", "dtypes/fp16", "dtypes/bf16", "engines/none")
_facts = cache(stored_facts)


def fill(database_url: str) -> None:
    """Store ENTRIES as files would."""
    from service.domain.catalog import CatalogKind
    from service.storage.catalog import Change, apply_changes
    from service.storage.database import make_engine, writing

    engine = make_engine(database_url)
    changes = [Change(CatalogKind(path.partition("s/")[0]), path.rpartition("/")[2], _facts(path)) for path in ENTRIES]
    with writing(engine) as connection:
        apply_changes(connection, changes, "tests", "files", "a small catalog")
    engine.dispose()


@contextmanager
def opened_lab(database_url: str, **environment: str) -> Iterator[Lab]:
    """A lab on that database, which must be filled."""
    from service.storage.tokens import Scope

    with wired_app(database_url, **environment) as app:
        yield Lab(app, app.test_client(), bearer(app, Scope.MEASUREMENTS_WRITE))


@contextmanager
def new_lab(database_url: str, **environment: str) -> Iterator[Lab]:
    """A lab on a migrated database, with the small catalog of the desk."""
    fill(database_url)
    with opened_lab(database_url, **environment) as lab:
        yield lab


def verdicts(answer: "TestResponse") -> Sequence[str]:
    return [item["verdict"] for item in answer.get_json()["items"]]
