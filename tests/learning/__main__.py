"""Does learning help? Prints the table of the README: python -m tests.learning."""

import sys

from tests.learning.folds import HEADER, is_proof, table


def main() -> int:
    """Print every fold; 1 where one of them got worse."""
    outcomes = table()
    print(HEADER)
    for outcome in outcomes:
        print(outcome.line())
    return int(not all(map(is_proof, outcomes)))


if __name__ == "__main__":
    sys.exit(main())
