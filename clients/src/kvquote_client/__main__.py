"""`python -m kvquote_client` is `kvquote`."""

import sys

from kvquote_client.cli import main

sys.exit(main())
