"""Ways in which a log is damaged on its way here, and what a damaged one must not say."""

import random
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import cache

from service.domain.logs import LogReading, Refusal, Said, read
from tests.domain.logs.samples import SAMPLES, Sample

Lines = list[str]
Damage = Callable[[Lines, random.Random], Lines]

# A log of several starts says something else where the last one is missing.
OF_ONE_START = [sample for sample in SAMPLES if sample.starts == 1]

_NAMES = re.compile(
    r"\((?:Vllm|Ray)?(?:Worker|EngineCore|APIServer|TrainWorker|DistributedExecutor)[^()]*\) ?"
    r"|(?<=\d)(?: (?:DP|PP|TP|EP)\d+)+(?=\])|\[1,\d+\](?:<std(?:out|err)>:?)?|\[gpu(?:_id)?=\d+\] ?"
    r"|^[\w.-]+ +\| |^\[pod/[^\]]*\] |\[RANK \d+\] ?",
    re.MULTILINE,
)


def without_names(lines: Lines) -> Lines:
    """The lines as an engine would have written them that names none of its processes."""
    return [_NAMES.sub("", line) for line in lines]


def some_lines_cut_at_their_ends(lines: Lines, by: random.Random) -> Lines:
    share = by.random()
    return [_cut(line, by) + "\n" if by.random() < share else line for line in lines]


def some_lines_cut_at_their_beginnings(lines: Lines, by: random.Random) -> Lines:
    share = by.random()
    return [line[by.randrange(len(line)) :] if by.random() < share else line for line in lines]


def some_lines_cut_at_either_end(lines: Lines, by: random.Random) -> Lines:
    return some_lines_cut_at_their_beginnings(some_lines_cut_at_their_ends(lines, by), by)


def some_lines_lost(lines: Lines, by: random.Random) -> Lines:
    share = by.random()
    return [line for line in lines if by.random() >= share]


def some_ends_lost(lines: Lines, by: random.Random) -> Lines:
    """The next line begins where a line was cut, as where two processes write at once."""
    share = by.random()
    return "".join(_cut(line, by) if by.random() < share else line for line in lines).splitlines(keepends=True)


def a_range_of_lines_lost(lines: Lines, by: random.Random) -> Lines:
    begin = by.randrange(len(lines))
    return lines[:begin] + lines[by.randrange(begin, len(lines)) + 1 :]


def cut_at_both_ends(lines: Lines, by: random.Random) -> Lines:
    text = "".join(lines)
    begin = by.randrange(len(text))
    return text[begin : by.randrange(begin, len(text)) + 1].splitlines(keepends=True)


def cut_at_one_width(lines: Lines, by: random.Random) -> Lines:
    width = by.randrange(20, 400)
    return [line.rstrip("\r\n")[:width] + "\n" for line in lines]


def some_lines_twice(lines: Lines, by: random.Random) -> Lines:
    share = by.random()
    return [each for line in lines for each in ([line, line] if by.random() < share else [line])]


def a_piece_twice(lines: Lines, by: random.Random) -> Lines:
    """As where a shipper sends again what it was not sure to have sent."""
    begin = by.randrange(len(lines))
    end = by.randrange(begin, len(lines)) + 1
    return lines[:end] + lines[begin:]


def several_at_once(lines: Lines, by: random.Random) -> Lines:
    for damage in by.sample(ONE_LOG[:-1], 2):
        lines = damage(lines, by) or lines
    return lines


def _cut(line: str, by: random.Random) -> str:
    return line.rstrip("\r\n")[: by.randrange(len(line))]


ONE_LOG: list[Damage] = [
    some_lines_cut_at_their_ends,
    some_lines_cut_at_their_beginnings,
    some_lines_cut_at_either_end,
    some_lines_lost,
    some_ends_lost,
    a_range_of_lines_lost,
    cut_at_both_ends,
    cut_at_one_width,
    some_lines_twice,
    a_piece_twice,
    several_at_once,
]


def interleaved(one: Lines, other: Lines, by: random.Random) -> Lines:
    """Two logs mixed line by line, each in its own order."""
    queues, mixed = (list(one), list(other)), []
    while queues[0] or queues[1]:
        first = not queues[1] or (queues[0] and by.random() < len(queues[0]) / (len(queues[0]) + len(queues[1])))
        mixed.append(queues[0 if first else 1].pop(0))
    return mixed


def one_behind_the_other(one: Lines, other: Lines, by: random.Random) -> Lines:  # noqa: ARG001  # as the others
    return one + other


def one_inside_the_other(one: Lines, other: Lines, by: random.Random) -> Lines:
    at = by.randrange(len(one) + 1)
    return one[:at] + other + one[at:]


TWO_LOGS = [interleaved, one_behind_the_other, one_inside_the_other]


@dataclass(frozen=True)
class Case:
    """A damaged log, and the whole ones that it was made of."""

    how: str
    lines: Lines
    of: tuple[Sample, ...]

    def wrong(self) -> list[str]:
        """What it says that none of its logs says; of two logs, it must all be of the same one."""
        reading = read(self.lines)
        return min((disagreeing(reading, *whole(sample.name)) for sample in self.of), key=len)


@cache
def whole(name: str) -> tuple[LogReading, frozenset[tuple[str, object]]]:
    """The reading of a whole log, and the settings of all of its lists."""
    lines = next(sample for sample in SAMPLES if sample.name == name).lines
    pieces = [piece for at in range(len(lines)) for piece in (lines[at:], lines[: at + 1], [lines[at]])]
    return read(lines), frozenset(pair for piece in pieces for pair in read(piece).settings.items())


def disagreeing(damaged: LogReading, true: LogReading, settings: Collection[tuple[str, object]]) -> list[str]:
    """What a reading says that another does not: values, those of ranks, settings, the release and the refusal."""
    known = _known(true)
    wrong = [f"{name} = {said.value}" for name, said in damaged.said.items() if not _among(said, [true.said.get(name)])]
    for rank in damaged.ranks:
        wrong += [f"{rank.worker}: {name} = {s.value}" for name, s in rank.said.items() if not _among(s, known[name])]
    # Two names that were cut make a third at times, which is nobody's and means nothing.
    names = {name for name, _ in settings}
    wrong += [f"setting {n} = {v}" for n, v in damaged.settings.items() if n in names and (n, v) not in settings]
    if damaged.version not in {None, true.version}:
        wrong.append(f"version {damaged.version}")
    if damaged.engine not in {None, true.engine}:
        wrong.append(f"engine {damaged.engine}")
    if damaged.refusal is not None and not _is_refusal(damaged.refusal, true.refusal):
        wrong.append(f"refusal {damaged.refusal}")
    return wrong


class _Known(dict[str, list[Said | None]]):
    def __missing__(self, name: str) -> list[Said | None]:
        return []


def _known(reading: LogReading) -> _Known:
    known = _Known({name: [said] for name, said in reading.said.items()})
    for rank in reading.ranks:
        for name, said in rank.said.items():
            known[name] = [*known[name], said]
    return known


def _among(said: Said, others: list[Said | None]) -> bool:
    return any(other is not None and _alike(said, other) for other in others)


def _alike(said: Said, other: Said) -> bool:
    if isinstance(said.value, str) or isinstance(other.value, str):
        return said.value == other.value
    return abs(said.value - other.value) <= said.rounding + other.rounding


def _is_refusal(damaged: Refusal, true: Refusal | None) -> bool:
    """Whether a refusal says no more than another does; what it lacks was cut."""
    return true is not None and all(
        name == "line" or said in {None, getattr(true, name)} for name, said in damaged._asdict().items()
    )


def cases(seed: int, samples: list[Sample] = OF_ONE_START) -> Iterator[Case]:
    """Damaged logs without end, the same for the same seed: of one log and of two in turn, with names and without."""
    by = random.Random(seed)
    while True:
        for sample in samples:
            damage = by.choice(ONE_LOG)
            # Without names, the ranks of one engine cannot be told apart where some of their lines are missing.
            nameless = len(whole(sample.name)[0].ranks) < 2 and by.random() < 0.2
            lines = without_names(sample.lines) if nameless else sample.lines
            yield Case(damage.__name__, damage(lines, by), (sample,))
            yield _of_two(sample, by.choice(samples), by)


def _of_two(one: Sample, other: Sample, by: random.Random) -> Case:
    both, mix = (one.lines, other.lines), by.choice(TWO_LOGS)
    how = mix.__name__
    if by.random() < 0.5:
        both, how = (without_names(both[0]), without_names(both[1])), f"{how}, no names"
    return Case(how, mix(*both, by), (one, other))
