"""`python -m kvquote_probe`, where the command is not on the path."""

import sys

from kvquote_probe.cli import main

sys.exit(main())
