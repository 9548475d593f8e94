"""What can be typed: the commands and the options that they share."""

from __future__ import annotations

import os
from argparse import ArgumentParser, ArgumentTypeError, Namespace, RawDescriptionHelpFormatter
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from kvquote_probe import __version__
from kvquote_probe.cli.codes import EXIT_CODES
from kvquote_probe.commands import Command, Share

UPLOAD, STATUS, ALL = "upload", "status", "all"
_PATIENCE_SECONDS, _UPLOAD_PATIENCE_SECONDS = 120.0, 600.0
_BUDGET_SECONDS = 1800.0
_LONGEST_SECONDS = 7 * 86400.0
_ALL_HELP = "a sensible set of the measurements with torch, within a time"

Asked = Mapping[str, tuple[Command, Namespace, "float | None"]]
"""Measurements by name, each with its options and the seconds that it may take."""


class Words:
    """The command line, as far as its commands are known; `shares` is the set that `all` stands for, in its order."""

    def __init__(self, commands: Mapping[str, Command], shares: Sequence[Share]) -> None:
        self._commands = commands
        self._shares = shares
        self._parser = self._whole()

    def parsed(self, words: Sequence[str]) -> tuple[Namespace, Asked]:
        """What was typed, and the measurements that it asks for; ends the program where it makes no sense."""
        args, rest = self._parser.parse_known_args(words)
        if args.command == ALL:
            return args, self._all(args, rest)
        if rest:
            self._parser.error(f"{args.command} has no {rest[0]!r}")
        command = self._commands.get(args.command)
        return args, {} if command is None else {command.name: (command, args, args.budget)}

    def _all(self, args: Namespace, rest: Sequence[str]) -> Asked:
        """Each measurement takes those of the remaining words that it knows; one that none knows is a mistake."""
        asked: dict[str, tuple[Command, Namespace, float | None]] = {}
        unknown = Counter(rest)
        for share in self._shares:
            command = self._commands[share.name]
            parser = ArgumentParser(prog=f"kvquote-probe {ALL}", add_help=False, allow_abbrev=False)
            command.add_arguments(parser)
            seconds = args.budget * share.share
            found, left = parser.parse_known_args(rest, Namespace(**{**vars(args), "budget": seconds}))
            unknown &= Counter(left)
            asked[share.name] = (command, found, seconds)
        if unknown:
            self._parser.error(f"no measurement of {ALL} has {next(iter(unknown))!r}")
        return asked

    def _whole(self) -> ArgumentParser:
        parser = ArgumentParser(
            prog="kvquote-probe",
            description="Measure what a GPU node really holds and does, keep it, and send it to a kvquote service.",
            epilog=EXIT_CODES,
            formatter_class=RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        parser.add_argument("--version", action="version", version=f"kvquote-probe {__version__}")
        words = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
        for command in self._commands.values():
            about = f"{command.help[0].upper()}{command.help[1:]}."
            one = words.add_parser(command.name, help=command.help, description=about, allow_abbrev=False)
            command.add_arguments(one)
            _add_measuring(one, None)
        if self._shares:
            names = ", ".join(share.name for share in self._shares)
            about = f"Runs {names}. Takes the options of these too, each for those that have it: see `COMMAND --help`."
            one = words.add_parser(ALL, help=_ALL_HELP, description=about, allow_abbrev=False)
            _add_measuring(one, _BUDGET_SECONDS)
        one = words.add_parser(UPLOAD, help="send what waits in the spool; needs no torch", allow_abbrev=False)
        one.add_argument(
            "--again", action="store_true", help="also what was refused, as after an upgrade of the service"
        )
        _add_service(one, _UPLOAD_PATIENCE_SECONDS)
        _add_spool(one)
        one = words.add_parser(STATUS, help="what waits in the spool and what was answered; needs no torch")
        _add_spool(one)
        return parser


def _add_measuring(parser: ArgumentParser, budget: float | None) -> None:
    run = parser.add_argument_group("the run")
    run.add_argument("--dry-run", action="store_true", help="print the plan and do nothing")
    run.add_argument("--no-upload", action="store_true", help="keep the results and send them another time")
    run.add_argument(
        "--budget", type=_seconds, default=budget, metavar="SECONDS",
        help="end it after this time; what was measured by then is kept" + (f" ({budget:g})" if budget else ""),
    )  # fmt: skip
    _add_service(parser, _PATIENCE_SECONDS)
    _add_spool(parser)


def _add_service(parser: ArgumentParser, patience: float) -> None:
    service = parser.add_argument_group("the service")
    service.add_argument("--url", default=_setting("KVQUOTE_URL"), help="its address; KVQUOTE_URL")
    service.add_argument("--token", default=_setting("KVQUOTE_TOKEN"), help="better given as KVQUOTE_TOKEN")
    service.add_argument(
        "--patience", type=_seconds, default=patience, metavar="SECONDS",
        help=f"how long to go on without an answer ({patience:g})",
    )  # fmt: skip


def _add_spool(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--spool", type=_folder, metavar="FOLDER", help="where results are kept; ~/.local/state/kvquote"
    )
    parser.add_argument("--json", action="store_true", help="print JSON, a row on each line")


def _setting(name: str) -> str | None:
    """A variable without the blanks and the end of line that secrets come with; None where it says nothing."""
    return os.environ.get(name, "").strip() or None


def _folder(text: str) -> Path:
    if not text or "\0" in text:
        raise ArgumentTypeError(f"{text!r} is no folder's name")
    return Path(text)


def _seconds(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found <= _LONGEST_SECONDS:
        raise ArgumentTypeError(f"{text!r} is no number of seconds up to a week")
    return found
