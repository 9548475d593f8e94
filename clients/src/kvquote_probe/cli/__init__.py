"""The command `kvquote-probe`: measure, keep, upload.

It ends with 0 when all is done, 2 where what was typed makes no sense, 3 where the service refuses, 4 where it has not
answered yet, 5 where nothing could be measured, 6 where results cannot be kept, 7 where part of it is missing, 70 where
the probe itself is at fault, and 130 or 143 when it was told to stop. `engine`, `upload` and `status` load no torch.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from kvquote_client.streams import open_streams, write_no_more
from kvquote_probe.cli.codes import Code
from kvquote_probe.cli.interrupts import Interrupts, Stopped
from kvquote_probe.cli.running import Run, say
from kvquote_probe.cli.words import STATUS, UPLOAD, Words
from kvquote_probe.commands import Share
from kvquote_probe.engine.command import ENGINE
from kvquote_probe.spool_file import SpoolError

_PIPE_CLOSED = 141
_WITHOUT_TORCH = frozenset({ENGINE.name, UPLOAD, STATUS})


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and say how it ended."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    open_streams()
    interrupts = Interrupts()
    try:
        with interrupts.heard():
            status = _run(words, interrupts)
            sys.stdout.flush()
            return int(status)
    except Stopped as stopped:
        say("told to stop; what was measured before is kept")
        return stopped.status
    except BrokenPipeError:
        # Whoever read has seen enough.
        write_no_more()
        return _PIPE_CLOSED
    except OSError as error:
        write_no_more()
        say(f"cannot write: {error.strerror or error}")
        return Code.SPOOL
    except Exception as error:
        if os.environ.get("KVQUOTE_DEBUG"):
            raise
        say(f"a fault of kvquote-probe itself, KVQUOTE_DEBUG=1 shows where: {error!r}")
        return Code.FAULT


def _run(words: Sequence[str], interrupts: Interrupts) -> int:
    args, asked = known_words(words).parsed(words)
    run = Run(args, interrupts)
    try:
        if args.command == STATUS:
            return run.status()
        return run.upload() if args.command == UPLOAD else run.measure(asked)
    except SpoolError as error:
        say(str(error))
        return Code.SPOOL


def known_words(words: Sequence[str]) -> Words:
    """The command line; measurements with torch only where it may be about one of them."""
    first = next((word for word in words if not word.startswith("-")), None)
    if first in _WITHOUT_TORCH:
        return Words({ENGINE.name: ENGINE}, ())
    from kvquote_probe.measure import commands

    shares = [Share(*share) for share in getattr(commands, "ALL", ())]
    return Words({**commands.COMMANDS, ENGINE.name: ENGINE}, shares)
