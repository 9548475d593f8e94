"""How well are logs quoted that came after the rules? Prints every figure: python -m tests.evidence [ENGINE ...]."""

import sys

from tests.domain.conftest import Shelf
from tests.evidence.starts import FILES, lines, rows, start_of

if __name__ == "__main__":
    shelf = Shelf()
    for engine in sys.argv[1:] or FILES:
        print(engine)
        for line in lines([start_of(row, shelf, engine) for row in rows(engine)]):
            print(line)
