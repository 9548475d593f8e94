"""A lab whose rows are learned from: upload, learn, ask."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from tests.api.desk import stored_facts
from tests.api.probing import Lab, opened_lab
from tests.databases import CATALOG
from tests.fleet import H100, MODEL, RELEASE

QUESTION = f"model={MODEL}&gpu={H100}&engine=vllm&engine_version={RELEASE}&context_tokens=8192"


@dataclass(frozen=True, slots=True)
class School:
    """`lab` with a job that learns."""

    lab: Lab

    def teach(self, rows: Sequence[dict[str, Any]]) -> None:
        """Upload rows and learn from them."""
        for first in range(0, len(rows), 1000):
            self.lab.upload(*rows[first : first + 1000])
        self.learn()

    def learn(self) -> int:
        """Run the job to its end and let the application read what it wrote; the revision."""
        from service.api.services import services_of
        from service.storage.learning import learn_some

        having = services_of(self.lab.app)
        having.keeper.refresh()
        while not learn_some(having.engine, having.keeper.current()).done:
            having.keeper.refresh()
        having.keeper.refresh()
        return having.keeper.current().calibration.revision

    def clear(self) -> None:
        """Forget every row, and what was learned."""
        from sqlalchemy import delete

        from service.api.services import services_of
        from service.storage import measurement_tables as samples
        from service.storage import tables
        from service.storage.database import writing

        self.lab.clear()
        having = services_of(self.lab.app)
        with writing(having.engine) as connection:
            for table in (
                *(samples.LEARNING_SAMPLE, samples.LEARNING_QUEUE, samples.LEARNING_STATE),
                *(tables.CALIBRATION_VALUE, tables.CALIBRATION_REVISION),
                *(samples.ACCURACY_SCORE, samples.ACCURACY_GROUP),
            ):
                connection.execute(delete(table))
        having.keeper.refresh()

    def fit(self, more: str = "") -> dict[str, Any]:
        return self.got(f"/fit?{QUESTION}{more}")

    def got(self, path: str) -> dict[str, Any]:
        answer = self.lab.client.get(path)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.get_json()
        return found

    def values(self, query: str = "") -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.got(f"/calibrations?limit=500&{query}")["items"]
        return found


# Enough of the catalog for quotes of an engine on several cards.
ENTRIES = (
    *(f"gpus/{gpu}" for gpu in (H100, "a100-sxm-80gb", "a10")),
    *(f"models/{model}" for model in (MODEL, "llama-2-7b")),
    *("engines/none", "engines/vllm"),
    *(f"dtypes/{path.stem}" for path in sorted((CATALOG / "dtypes").glob("*.yaml"))),
)
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
def new_school(database_url: str) -> Iterator[School]:
    """On a migrated database, with a small catalog."""
    fill(database_url)
    with opened_lab(
        database_url, KVQUOTE_UPLOAD_ROWS_PER_MINUTE="1000000", KVQUOTE_UPLOAD_BYTES_PER_MINUTE="10000000000"
    ) as lab:
        yield School(lab)
