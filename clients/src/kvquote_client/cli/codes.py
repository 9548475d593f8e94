"""How the command ends, for pipelines."""

from __future__ import annotations

from typing import Final

NOT_MET: Final = 1
USAGE: Final = 2
REFUSED: Final = 3
NO_ANSWER: Final = 4
FAULT: Final = 70  # sysexits.h: an internal software error
INTERRUPTED: Final = 130
PIPE_CLOSED: Final = 141
