"""`python -m tests.benchmarks.uploading FOLDER URL`: upload a spool, and tell the most memory that it took.

A process of its own, since the peak of a process never falls.
"""

import re
import sys
from pathlib import Path

from kvquote_probe.cli import main


def peak_bytes() -> int:
    """The high-water mark of this process alone; getrusage would also tell of whoever started it."""
    found = re.search(r"^VmHWM:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    if found is None:
        raise LookupError("the system does not tell a process's peak")
    return int(found[1]) << 10


if __name__ == "__main__":
    ended = main(["upload", "--spool", sys.argv[1], "--url", sys.argv[2]])
    print(peak_bytes())
    sys.exit(ended)
