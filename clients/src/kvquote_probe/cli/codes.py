"""How the probe ends, for schedulers."""

from __future__ import annotations

from enum import IntEnum, unique


@unique
class Code(IntEnum):
    """Exit statuses; 3 and 4 mean what they mean for `kvquote`."""

    DONE = 0
    USAGE = 2
    REFUSED = 3
    LATER = 4
    NOTHING = 5
    SPOOL = 6
    PARTLY = 7
    FAULT = 70


EXIT_CODES = """\
exit status:
  0    done: measured, kept and, where a service is named, answered by it
  2    what was typed makes no sense
  3    the service refused the token or some rows, which are set aside: a person is needed
  4    kept, not yet answered by the service: `kvquote-probe upload` sends it later, nothing is lost
  5    nothing could be measured: no such engine, no torch, a card that others use
  6    results cannot be kept: the disk is full, the folder is not writable, another uploader is at work
  7    some of `all` could be measured and some not, or its time was over: each is named, and what was measured is kept
  70   a fault of the probe itself; what was measured before is kept
  130, 143  ended by Ctrl-C, SIGTERM; what was measured before is kept

A timer may start it again after 4 and 7, should tell somebody about 3, 5, 6 and 70.
"""
