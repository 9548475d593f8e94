"""What all sections work with: how much to measure, the databases, and the questions to ask."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

from service.settings import Settings
from service.storage.database import make_engine
from service.storage.snapshot import Snapshot, SnapshotKeeper
from tests.benchmarks.questions import Asked, different_questions


@dataclass(frozen=True, slots=True)
class Effort:
    """How often each thing is done."""

    questions: int
    """Different questions that are drawn; rounds ask them in turn."""
    rounds: int
    asked: int
    """Questions of one round."""
    seconds: float
    """Length of one round at a fixed rate."""
    starts: int
    models: int
    """Models of the large catalog."""
    rows: int
    """Rows of the large spool."""
    stored: int
    """Measurements in a database that has many of them."""


FULL = Effort(questions=2000, rounds=5, asked=1000, seconds=3.0, starts=5, models=100_000, rows=100_000, stored=100_000)
QUICK = Effort(questions=12, rounds=1, asked=12, seconds=0.1, starts=0, models=300, rows=1200, stored=1200)


class Workplace:
    """`sqlite_url` and `postgresql_url` give databases with the catalog loaded, made when first needed."""

    def __init__(self, effort: Effort, sqlite_url: Callable[[], str], postgresql_url: Callable[[], str]) -> None:
        self.effort = effort
        self._sqlite_url = sqlite_url
        self._postgresql_url = postgresql_url

    @cached_property
    def sqlite_url(self) -> str:
        self.say("making an SQLite database with the catalog")
        return self._sqlite_url()

    def another_sqlite_url(self) -> str:
        """A database with the catalog that no other section uses, to be filled at will."""
        self.say("making another SQLite database with the catalog")
        return self._sqlite_url()

    @cached_property
    def postgresql_url(self) -> str:
        self.say("making a PostgreSQL database with the catalog")
        return self._postgresql_url()

    @cached_property
    def questions(self) -> list[Asked]:
        self.say(f"drawing {self.effort.questions:,} different questions")
        return different_questions(self.catalog, self.effort.questions)

    @cached_property
    def catalog(self) -> Snapshot:
        with keeper_of(self.sqlite_url) as keeper:
            keeper.refresh()
            return keeper.current()

    @staticmethod
    def say(what: str) -> None:
        """Progress goes to stderr, so that the table can be piped."""
        print(f"  {what}", file=sys.stderr, flush=True)


@contextmanager
def keeper_of(database_url: str) -> Iterator[SnapshotKeeper]:
    usual = Settings()
    engine = make_engine(database_url, usual.database_timeout_seconds)
    keeper = SnapshotKeeper(engine, usual.catalog_refresh_seconds)
    try:
        yield keeper
    finally:
        keeper.stop()
        engine.dispose()
