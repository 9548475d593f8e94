"""`kvquote-server measurements`: learn from what probes sent, and let old rows go."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from service.cli_shared import in_plain_words, sessions

if TYPE_CHECKING:
    from sqlalchemy.orm import Session, sessionmaker


@click.group()
def measurements() -> None:
    """What probes measured, and what it taught."""


@measurements.command("learn")
@click.option("--every", type=click.IntRange(1, 86_400), help="Seconds between runs, until it is stopped.")
@in_plain_words
def measurements_learn(every: int | None) -> None:
    """Take up the rows that came since, and write what they teach as a revision that quotes use.

    Safe to run several at once, and again after it was interrupted.
    """
    with sessions() as opened:
        while True:
            while not _learn(opened):
                """More rows than a run takes up."""
            if every is None:
                return
            time.sleep(every)


def _learn(opened: sessionmaker[Session]) -> bool:
    """One run; whether it came to the end of the rows."""
    from service.storage.learning import learn_some
    from service.storage.measurement_settling import mark, settle_some
    from service.storage.snapshot import SnapshotKeeper

    keeper = SnapshotKeeper(opened)
    keeper.refresh()
    catalog = keeper.current()
    mark(opened, catalog)
    settled = settle_some(opened, catalog)
    lesson = learn_some(opened, catalog)
    found = f"calibration revision {lesson.revision}" if lesson.revision else "nothing new was learned"
    click.echo(f"{lesson.rows:,} rows looked at, {lesson.samples:,} samples kept: {found}.")
    return settled and lesson.done


@measurements.command("thin")
@click.option("--days", type=click.IntRange(1, 36_500), required=True, help="Rows that arrived in these days stay.")
@click.option("--dry-run", is_flag=True, help="Only count them.")
@in_plain_words
def measurements_thin(days: int, *, dry_run: bool) -> None:
    """Delete older rows, but none that what was learned rests on: answers stay what they are.

    Nor rows that were not looked at yet, nor those that wait for the catalog to learn what they name.
    """
    from service.storage.thinning import thin

    with sessions() as opened:
        found = thin(opened, timedelta(days=days), dry_run=dry_run)
    what = "would go" if dry_run else "are gone"
    click.echo(f"{found.deleted:,} rows {what}, {found.kept:,} older ones stay: learned from, or waiting.")
