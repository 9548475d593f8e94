"""Running what was typed: the plan first, each result kept before the next is measured, and then the upload."""

from __future__ import annotations

import json
import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager

from kvquote_client.errors import InvalidInput
from kvquote_client.transport import DEFAULT_DEADLINE_SECONDS, Transport
from kvquote_probe import __version__
from kvquote_probe.cli.children import children, end_children
from kvquote_probe.cli.codes import Code
from kvquote_probe.cli.interrupts import Interrupts, OutOfTime, limited
from kvquote_probe.cli.showing import reading_lines, status_document, status_lines, upload_line
from kvquote_probe.cli.words import Asked
from kvquote_probe.commands import Command, MeasureError, Say
from kvquote_probe.driver import auto_means
from kvquote_probe.readings import Reading
from kvquote_probe.rows import encoded, make_row
from kvquote_probe.spool import Spool, default_folder
from kvquote_probe.spool_file import SpoolBusyError, SpoolError
from kvquote_probe.upload import End, Report, Uploader

_TIMEOUT_SECONDS = (3.05, 60.0)
_ENDS = {End.LATER: Code.LATER, End.REFUSED: Code.REFUSED}
# Of several ways in which a run fell short, the one that most needs somebody to look.
_GRAVEST = (Code.SPOOL, Code.USAGE, Code.REFUSED, Code.NOTHING, Code.PARTLY, Code.LATER, Code.DONE)


def say(line: str) -> None:
    """Progress goes to standard error, so that rows can be piped."""
    print(line, file=sys.stderr, flush=True)


def gravest(*codes: Code) -> Code:
    """The status of a run that had several."""
    return min(codes, key=_GRAVEST.index)


class Run:
    """One run of the probe on one spool."""

    def __init__(self, args: Namespace, interrupts: Interrupts) -> None:
        self._args = args
        self._interrupts = interrupts

    def status(self) -> Code:
        """`status`: what waits and what was answered."""
        with self._spool() as spool:
            counts = spool.counts()
            lines = [status_document(spool, counts)] if self._args.json else status_lines(spool, counts)
            print(*lines, sep="\n")
        return Code.DONE

    def upload(self) -> Code:
        """`upload`: send what waits."""
        if not self._args.url:
            say("no service is named: give its address with --url or KVQUOTE_URL")
            return Code.USAGE
        with self._spool() as spool:
            if self._args.again:
                say(f"{spool.send_again():,} rows that were refused are sent again")
            return self._sent(spool)

    def measure(self, commands: Asked) -> Code:
        """Measurements one after the other: each with its options and the seconds that it may take."""
        try:
            self._check_service()
        except InvalidInput as error:
            say(str(error))
            return Code.USAGE
        self._print_plan(commands)
        if self._args.dry_run:
            return Code.DONE
        standing = children()
        try:
            with self._spool() as spool:
                code = self._measured(spool, commands)
                return gravest(code, self._sent(spool)) if self._sends else code
        finally:
            with self._interrupts.held():
                for child in end_children(standing):
                    say(f"process {child}, which a measurement left behind, was ended")

    def _check_service(self) -> None:
        """An address or a token that cannot be is said before anything is measured, not after. Raises InvalidInput."""
        if self._args.url is not None:
            Transport(self._args.url, self._args.token).close()

    def _print_plan(self, commands: Asked) -> None:
        tell: Say = print if self._args.dry_run else say
        if any(getattr(args, "device", None) == "auto" for _, args, _ in commands.values()):
            tell(f"plan: {auto_means()}")
        for command, args, seconds in commands.values():
            limit = "" if seconds is None else f", at most {seconds:,.0f} s"
            tell(f"plan: {command.name}{limit}")
            for line in command.plan(args):
                tell(f"  {line}")
        sends = f"send it to {self._args.url}" if self._sends else "send nothing"
        tell(f"plan: keep each result in {self._args.spool or default_folder()}, {sends}")

    def _measured(self, spool: Spool, commands: Asked) -> Code:
        codes, spare = [], 0.0
        for command, args, seconds in commands.values():
            # What one measurement leaves of its time is the next one's.
            started = time.monotonic()
            limit = None if seconds is None else seconds + spare
            args.budget = limit
            codes.append(self._one(spool, command, args, limit))
            spare = 0.0 if limit is None else max(0.0, limit - (time.monotonic() - started))
        if len(codes) > 1 and Code.NOTHING in codes and set(codes) != {Code.NOTHING}:
            return Code.PARTLY
        return gravest(*codes)

    def _one(self, spool: Spool, command: Command, args: Namespace, seconds: float | None) -> Code:
        say(f"{command.name}:")
        kept = 0
        try:
            with _closing(command.run(args, say)) as readings:
                for reading in self._within(readings, seconds):
                    self._keep(spool, reading)
                    kept += 1
        except MeasureError as error:
            say(f"{command.name}: {error}")
            return Code.PARTLY if kept else Code.NOTHING
        except OutOfTime:
            say(f"{command.name}: its {seconds:,.0f} s are over; {kept} results are kept")
            return Code.PARTLY
        return Code.DONE if kept else Code.NOTHING

    def _within(self, readings: Iterator[Reading], seconds: float | None) -> Iterator[Reading]:
        """The readings, each waited for no longer than there is time for all; keeping them is never cut short."""
        until = None if seconds is None else time.monotonic() + seconds
        while True:
            with limited(None if until is None else until - time.monotonic()):
                reading = next(readings, None)
            if reading is None:
                return
            yield reading

    def _keep(self, spool: Spool, reading: Reading) -> None:
        row = make_row(reading, spool.probe_id)
        try:
            text = encoded(row)
        except ValueError as error:
            raise MeasureError(f"a value of {reading.kind} is no number: {error}") from error
        try:
            with self._interrupts.held():
                spool.add([row])
        except SpoolError:
            # Not kept: whoever started this may still catch it.
            print(text, flush=True)
            raise
        lines = [text] if self._args.json else reading_lines(row)
        print(*lines, sep="\n", flush=True)

    def _sent(self, spool: Spool) -> Code:
        try:
            with (
                Transport(
                    self._args.url,
                    self._args.token,
                    timeout=_TIMEOUT_SECONDS,
                    deadline=min(max(self._args.patience, _TIMEOUT_SECONDS[1]), DEFAULT_DEADLINE_SECONDS),
                    retries=0,
                    user_agent=f"kvquote-probe/{__version__}",
                ) as transport,
                spool.uploading(),
            ):
                report = Uploader(spool, transport, say, self._args.patience).run()
        except InvalidInput as error:
            say(str(error))
            return Code.USAGE
        except SpoolBusyError as error:
            say(str(error))
            return Code.SPOOL if self._args.command == "upload" else Code.LATER
        self._tell(report, spool)
        return _ENDS.get(report.end, Code.REFUSED if report.set_aside else Code.DONE)

    def _tell(self, report: Report, spool: Spool) -> None:
        waiting = spool.counts().waiting
        say(upload_line(report, waiting))
        if self._args.json and self._args.command == "upload":
            document = {"counts": report.counts, "waiting": waiting, "end": report.end.value, "why": report.why}
            print(json.dumps(document, ensure_ascii=False))

    @property
    def _sends(self) -> bool:
        return bool(self._args.url) and not self._args.no_upload

    @contextmanager
    def _spool(self) -> Iterator[Spool]:
        with Spool(self._args.spool or default_folder()) as spool:
            if spool.recovery is not None:
                found = spool.recovery
                say(f"the spool was damaged: {found.rows:,} rows were saved, the rest lies in {found.damaged}")
            yield spool


@contextmanager
def _closing(readings: Iterator[Reading]) -> Iterator[Iterator[Reading]]:
    """End a measurement that is left half-way."""
    try:
        yield readings
    finally:
        close = getattr(readings, "close", None)
        if close is not None:
            close()
