"""How well are logs quoted that came after the rules? Prints every figure: python -m tests.evidence."""

from tests.domain.conftest import Shelf
from tests.evidence.starts import lines, rows, start_of

if __name__ == "__main__":
    shelf = Shelf()
    for line in lines([start_of(row, shelf) for row in rows()]):
        print(line)
