"""Databases with a few and with very many models, besides the whole catalog.

The models are copies of the catalog's own under other names, so their facts are as long as real ones.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path

from service.domain.catalog import CatalogKind
from service.storage.catalog import Change, apply_changes
from service.storage.database import make_engine, writing
from service.storage.snapshot import Snapshot
from tests.benchmarks.workplace import Workplace
from tests.databases import SqliteServer

# So many in one transaction.
_PORTION = 10_000


@contextmanager
def databases_with(counts: tuple[int, ...], place: Workplace) -> Iterator[list[str]]:
    """URLs of SQLite databases with the catalog and so many models more."""
    with tempfile.TemporaryDirectory(prefix="kvquote-models-") as folder:
        server = SqliteServer(Path(folder))
        urls = []
        for count in counts:
            place.say(f"large catalog: storing {count:,} models")
            urls.append(server.copy(place.sqlite_url))
            _add_models(urls[-1], place.catalog, count)
        yield urls


def _add_models(url: str, catalog: Snapshot, count: int) -> None:
    engine = make_engine(url, timeout_seconds=60)
    copies = _copies(catalog)
    for start in range(0, count, _PORTION):
        changes = list(islice(copies, min(_PORTION, count - start)))
        with writing(engine) as connection:
            apply_changes(connection, changes, "benchmark", "files", "copies of models")
    engine.dispose()


def _copies(catalog: Snapshot) -> Iterator[Change]:
    originals = [catalog.facts(CatalogKind.MODEL, name) for name in catalog.ids(CatalogKind.MODEL)]
    for number, facts in enumerate(cycle(originals)):
        entry_id = f"{facts['id']}-copy-{number:06}"
        names = {"id": entry_id, "hub_id": f"{facts['hub_id']}-Copy-{number:06}", "aliases": []}
        yield Change(CatalogKind.MODEL, entry_id, {**facts, **names})
