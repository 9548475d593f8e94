"""The command `kvquote`: quotes and the catalog, for people and for pipelines.

It ends with 0 where the answer is there, 1 where --require is not met, 2 where what was typed makes no sense, 3 where
the service refused all or a part of it, 4 where no answer could be had: nothing answers, or it is overloaded. 70 is a
fault of this program.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

from kvquote_client import __version__
from kvquote_client.cli.codes import FAULT, INTERRUPTED, NO_ANSWER, PIPE_CLOSED, REFUSED, USAGE
from kvquote_client.cli.commands import DEFAULT_URL, asked_for
from kvquote_client.cli.output import Output, complain
from kvquote_client.errors import InvalidInput, KvquoteError, NotAllowed, Refused, Unavailable
from kvquote_client.streams import open_streams, write_no_more

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from kvquote_client.client import Client

_WAY_OUT: Final = "\n  --url or KVQUOTE_URL names a service, --local needs none"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and say how it ended."""
    open_streams()
    try:
        status = _run(list(sys.argv[1:] if arguments is None else arguments))
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read has seen enough.
        write_no_more()
        return PIPE_CLOSED
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:
        write_no_more()
        return _complain(f"cannot write: {error.strerror or error}", NO_ANSWER)
    except Exception as error:
        if os.environ.get("KVQUOTE_DEBUG"):
            raise
        return _complain(f"a fault of kvquote itself, KVQUOTE_DEBUG=1 shows where: {error!r}", FAULT)
    return status


def _run(words: list[str]) -> int:
    asked = asked_for(words)
    output = Output.of(asked.form)
    try:
        with _client(asked) as client:
            status: int = asked.run(asked, client, output)
            return status
    except InvalidInput as error:
        return _complain(str(error), USAGE)
    except Refused as refused:
        if asked.form == "json":
            output.tell_json(refused.problem)
        if not refused.problem and not isinstance(refused, NotAllowed | Unavailable):
            # A service says what it refuses: something else answers there.
            return _complain(f"{refused.url} answered HTTP {refused.status} and no reason{_WAY_OUT}", NO_ANSWER)
        return _complain(_explained(refused), NO_ANSWER if isinstance(refused, Unavailable) else REFUSED)
    except KvquoteError as error:
        return _complain(f"{error}{'' if asked.local else _WAY_OUT}", NO_ANSWER)


def _client(asked: argparse.Namespace) -> Client:
    from kvquote_client.client import Client
    from kvquote_client.transport import DEFAULT_DEADLINE_SECONDS, DEFAULT_RETRIES, DEFAULT_TIMEOUT_SECONDS

    if asked.local:
        if asked.url:
            raise InvalidInput("--local asks no --url: one of them")
        from kvquote_client.local import local_client

        return local_client(asked.database)
    if asked.database:
        raise InvalidInput("--database is what --local asks; without --local the service has its own")
    return Client(
        asked.url if asked.url is not None else os.environ.get("KVQUOTE_URL", "").strip() or DEFAULT_URL,
        asked.token if asked.token is not None else os.environ.get("KVQUOTE_TOKEN", "").strip() or None,
        timeout=asked.timeout or DEFAULT_TIMEOUT_SECONDS,
        deadline=asked.deadline or DEFAULT_DEADLINE_SECONDS,
        retries=DEFAULT_RETRIES if asked.retries is None else asked.retries,
        user_agent=f"kvquote/{__version__}",
    )


def _explained(refused: Refused) -> str:
    """A problem as lines, its pointers as the options that they are."""
    from kvquote_client.cli.options import option_of

    lines = [f"{refused.status} {refused.title}"]
    for fault in refused.errors or [{"detail": refused.detail}]:
        option = option_of(fault.get("pointer"))
        detail, nearest = str(fault.get("detail")), fault.get("nearest")
        others = [str(each) for each in nearest if str(each) not in detail] if isinstance(nearest, list) else []
        meant = f" Near it: {', '.join(others)}." if others else ""
        lines.append(f"  {f'{option}: ' if option else ''}{detail}{meant}")
    if refused.retry_after_seconds is not None:
        lines.append(f"  it asks to wait {refused.retry_after_seconds:.0f} s")
    return "\n".join([*lines, *([f"  request {refused.request_id}"] if refused.request_id else [])])


def _complain(words: str, status: int) -> int:
    complain(words)
    return status
