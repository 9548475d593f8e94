"""Does a damaged log ever say a wrong number? `python -m tests.domain.logs.fuzzing [COUNT [SEED]]`.

Every log of the tests is cut, thinned, doubled and mixed with others, with and without the names of its processes;
each value that the damaged one says is compared with what the whole ones say. Minutes for 100,000; ends with 1 where
one of them says what none of its logs does.
"""

import sys
from collections import Counter
from collections.abc import Sequence
from itertools import islice

from tests.domain.logs.damaging import cases

COUNT, SHOWN = 100_000, 20


def main(arguments: Sequence[str]) -> int:
    """Damage as many logs as asked, and say which of them lie."""
    count = int(arguments[0]) if arguments else COUNT
    seed = int(arguments[1]) if len(arguments) > 1 else 0
    damaged: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    for case in islice(cases(seed), count):
        damaged[case.how] += 1
        lies = case.wrong()
        wrong[case.how] += bool(lies)
        if lies and wrong.total() <= SHOWN:
            print(f"{case.how} of {', '.join(sample.name for sample in case.of)}: {'; '.join(lies[:4])}", flush=True)
    for how, times in sorted(damaged.items()):
        print(f"{how:45} {wrong[how]:6,} wrong of {times:7,}")
    print(f"seed {seed}: {wrong.total():,} wrong of {count:,} damaged logs")
    return int(wrong.total() > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
