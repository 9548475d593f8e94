"""`kvquote-server measurements`: learn from what probes sent, let old rows go, and believe some senders no more."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import click

from service.cli_shared import CommandError, engine, in_plain_words, user

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from service.domain.trust import Sender
    from service.storage.snapshot import Snapshot

_JUDGING_SECONDS: Final = 20.0
_LONGEST_REASON: Final = 120
_BUSY_SECONDS: Final = 120.0


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
    with engine(_BUSY_SECONDS) as opened:
        while True:
            while not _learn(opened):
                """More rows than a run takes up."""
            if every is None:
                return
            time.sleep(every)


def _learn(opened: Engine) -> bool:
    """One run; whether it came to the end of the rows."""
    from service.storage.learning import learn_some

    catalog, settled = _settled(opened)
    lesson = learn_some(opened, catalog)
    found = f"calibration revision {lesson.revision}" if lesson.revision else "nothing new was learned"
    click.echo(f"{lesson.rows:,} rows looked at, {lesson.samples:,} samples kept: {found}.")
    return settled and lesson.done


def _settled(opened: Engine) -> tuple[Snapshot, bool]:
    """The catalog of now, after rows were judged by it for a while; whether all are."""
    from service.storage.calibrations import newest_revisions
    from service.storage.database import reading
    from service.storage.measurement_settling import mark, settle_some
    from service.storage.snapshot import SnapshotKeeper
    from service.storage.trust_decisions import settle_decisions

    with reading(opened) as connection:
        # What keeps the catalog notes why it cannot be read; who runs a command is told instead.
        newest_revisions(connection)
    keeper = SnapshotKeeper(opened)
    keeper.refresh()
    catalog = keeper.current()
    mark(opened, catalog)
    return catalog, settle_some(opened, catalog) and settle_decisions(opened, catalog, _JUDGING_SECONDS)


@measurements.command("thin")
@click.option("--days", type=click.IntRange(1, 36_500), required=True, help="Rows that arrived in these days stay.")
@click.option("--dry-run", is_flag=True, help="Only count them.")
@in_plain_words
def measurements_thin(days: int, *, dry_run: bool) -> None:
    """Delete older rows, but none that what was learned rests on: answers stay what they are.

    Nor rows that were not looked at yet, nor those that wait for the catalog to learn what they name.
    """
    from service.storage.thinning import thin

    with engine() as opened:
        found = thin(opened, timedelta(days=days), dry_run=dry_run)
    what = "would go" if dry_run else "are gone"
    click.echo(f"{found.deleted:,} rows {what}, {found.kept:,} older ones stay: learned from, or waiting.")


@measurements.command("blank-commands")
@click.option("--dry-run", is_flag=True, help="Only count them.")
@in_plain_words
def measurements_blank_commands(*, dry_run: bool) -> None:
    """Take stored commands out that hold a key, a path or a machine's name: rows of before these were refused.

    The measurements stay, with the fields that a command stands for in its place.
    """
    from service.storage.blanking import UnsettledCatalogError, blank_commands

    with engine(_BUSY_SECONDS) as opened:
        catalog, _ = _settled(opened)
        try:
            found = blank_commands(opened, catalog, user(), dry_run=dry_run)
        except UnsettledCatalogError as error:
            detail = "Rows are judged by another catalog or release by now; those left are taken by the next run."
            raise CommandError(detail) from error
    would = "would be" if dry_run else "are"
    click.echo(
        f"{found.spelled_out + found.dropped:,} commands {would} gone: {found.spelled_out:,} rows have their fields "
        f"instead, {found.dropped:,} were not understood."
    )


@measurements.command("distrust")
@click.option("--probe", help="The id of a probe, as /probes shows it.")
@click.option("--token", help="The public id of a token: everything that came with it, whichever probe it names.")
@click.option("--since", help="Only rows that arrived then or later: a time with an offset.")
@click.option("--reason", help="Why, in a line; rows and /probes show it to everybody.")
@click.option("--undo", is_flag=True, help="Believe it again.")
@in_plain_words
def measurements_distrust(
    probe: str | None, token: str | None, since: str | None, reason: str | None, *, undo: bool
) -> None:
    """Set a sender's rows aside, those it sent and those it will send: they stay, and nothing learns from them.

    Ends when everything that was learned has followed. Interrupted, `measurements learn` or a server goes on with it.
    """
    from service.domain.trust import Decision
    from service.storage.trust_decisions import Change, SenderError, decide

    sender, sender_id = _sender(probe, token)
    if undo == bool(reason) or (undo and since):
        raise CommandError("Say why with --reason, or only --undo.")
    decision = None if undo else Decision(_moment(since), _line(reason or ""))
    with engine(_BUSY_SECONDS) as opened:
        try:
            decide(opened, Change(sender, sender_id, decision, user()))
        except SenderError as error:
            raise CommandError(str(error)) from error
        click.echo(f"The {sender} {sender_id} is {'trusted again' if undo else 'distrusted'}.")
        while not _learn(opened):
            """More rows than a run takes up."""


def _sender(probe: str | None, token: str | None) -> tuple[Sender, str]:
    from uuid import UUID

    from service.domain.trust import Sender

    if (probe is None) == (token is None):
        raise CommandError("Name one sender: --probe or --token.")
    if token is not None:
        return Sender.TOKEN, token
    try:
        return Sender.PROBE, str(UUID(probe))
    except ValueError:
        raise CommandError("A probe's id is a UUID, as /probes shows it.") from None


def _moment(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
        in_utc = None if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        in_utc = None
    if in_utc is None:
        raise CommandError("--since is a time with an offset, such as 2026-11-29T12:00:00Z.")
    if in_utc > datetime.now(UTC):
        # Until then everybody who was told that the sender is not believed would believe it.
        raise CommandError("--since lies in the future: a sender is distrusted from now on or from earlier.")
    return in_utc


def _line(text: str) -> str:
    if not (text.isprintable() and 0 < len(text.strip()) <= _LONGEST_REASON):
        raise CommandError(f"A reason has 1 to {_LONGEST_REASON} characters that can be seen, in one line.")
    return text.strip()


@measurements.command("distrusted")
@in_plain_words
def measurements_distrusted() -> None:
    """List the senders whose rows are set aside."""
    from service.storage.database import reading
    from service.storage.trust import read_distrust

    with engine() as opened, reading(opened) as connection:
        for (sender, sender_id), (since, reason) in sorted(read_distrust(connection).senders.items()):
            span = f"since {since:%Y-%m-%d %H:%M:%S}Z" if since else "all rows"
            click.echo(f"{sender} {sender_id}  {span}: {reason}")
