"""Logs that were cut, mixed or broken: read without failing, and never a value that the whole log does not have."""

import random
from collections.abc import Callable
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.domain.logs import LogReading, Said, read
from tests.computing import least_seconds
from tests.domain.logs.damaging import cases
from tests.domain.logs.samples import SAMPLES, Sample

# A log of several starts says something else where the last one is missing.
OF_ONE_START = [sample for sample in SAMPLES if sample.starts == 1]
Lines = list[str]
Damage = Callable[[Sample, random.Random], Lines]


def cut_at_its_end(sample: Sample, by: random.Random) -> Lines:
    return sample.text[: by.randrange(len(sample.text))].splitlines(keepends=True)


def cut_at_its_beginning(sample: Sample, by: random.Random) -> Lines:
    return sample.text[by.randrange(len(sample.text)) :].splitlines(keepends=True)


def a_line_cut_at_its_end(sample: Sample, by: random.Random) -> Lines:
    lines, at = sample.lines, by.randrange(len(sample.lines))
    lines[at] = lines[at].rstrip("\r\n")[: by.randrange(len(lines[at]))] + "\n"
    return lines


def a_line_cut_at_its_beginning(sample: Sample, by: random.Random) -> Lines:
    lines, at = sample.lines, by.randrange(len(sample.lines))
    lines[at] = lines[at][by.randrange(len(lines[at])) :]
    return lines


def a_line_lost(sample: Sample, by: random.Random) -> Lines:
    lines = sample.lines
    del lines[by.randrange(len(lines))]
    return lines


def every_line_cut_at_one_width(sample: Sample, by: random.Random) -> Lines:
    width = by.randrange(20, 300)
    return [line.rstrip("\r\n")[:width] + "\n" for line in sample.lines]


def the_end_of_a_line_lost(sample: Sample, by: random.Random) -> Lines:
    """As where two processes write at once: the next line begins where this one was."""
    lines, at = sample.lines, by.randrange(len(sample.lines))
    lines[at] = lines[at].rstrip("\r\n")[: by.randrange(len(lines[at]))]
    return "".join(lines).splitlines(keepends=True)


def processes_in_another_order(sample: Sample, by: random.Random) -> Lines:
    """Each process's own lines in their order, the processes mixed anew."""
    by_process: dict[str, Lines] = {}
    for line in sample.lines:
        by_process.setdefault(_writer(line), []).append(line)
    turns = [name for name, lines in by_process.items() for _ in lines]
    by.shuffle(turns)
    return [by_process[name].pop(0) for name in turns]


def _writer(line: str) -> str:
    """The name in brackets that a line begins with, whatever stands before it; one for all lines without."""
    for mark in (" TP", "(Worker", "(VllmWorker", "(RayWorker", "[gpu=", "[1,"):
        if mark in line:
            begin = line.index(mark)
            return line[begin : begin + 14]
    return ""


DAMAGES: list[Damage] = [
    cut_at_its_end,
    cut_at_its_beginning,
    a_line_cut_at_its_end,
    a_line_cut_at_its_beginning,
    a_line_lost,
    every_line_cut_at_one_width,
    the_end_of_a_line_lost,
]


def values(reading: LogReading) -> dict[tuple[str, str], Said]:
    said = {("", name): said for name, said in reading.said.items()}
    return said | {(rank.worker, name): said for rank in reading.ranks for name, said in rank.said.items()}


def invented(damaged: LogReading, whole: LogReading) -> list[tuple[str, str, Said]]:
    """Values that the whole log does not have: neither under that name nor, of a lone process, by any of its own."""
    true: dict[tuple[str, str], Said] = values(whole)
    by_name: dict[str, list[Said]] = {}
    for (_, name), said in true.items():
        by_name.setdefault(name, []).append(said)
    lone = len(damaged.ranks) <= 1
    return [
        (worker, name, said)
        for (worker, name), said in values(damaged).items()
        if not any(
            _alike(said, other)
            for other in (by_name.get(name, []) if lone else [true[worker, name]] if (worker, name) in true else [])
        )
    ]


def _alike(said: Said, other: Said) -> bool:
    if isinstance(said.value, str) or isinstance(other.value, str):
        return said.value == other.value
    return abs(said.value - other.value) <= said.rounding + other.rounding


WHOLE = {sample.name: read(sample.lines) for sample in OF_ONE_START}


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
@given(sample=st.sampled_from(OF_ONE_START), seed=st.integers(0, 2**32))
@settings(max_examples=60)
def test_a_damaged_log_says_nothing_that_the_whole_one_does_not(damage: Damage, sample: Sample, seed: int) -> None:
    damaged = read(damage(sample, random.Random(seed)))

    assert invented(damaged, WHOLE[sample.name]) == []
    assert damaged.version in {None, WHOLE[sample.name].version}


@given(sample=st.sampled_from(OF_ONE_START), seed=st.integers(0, 2**32))
@settings(max_examples=40)
def test_processes_may_write_in_any_order(sample: Sample, seed: int) -> None:
    mixed = read(processes_in_another_order(sample, random.Random(seed)))

    assert invented(mixed, WHOLE[sample.name]) == []


@given(
    samples=st.lists(st.sampled_from(OF_ONE_START), min_size=2, max_size=2, unique_by=id), seed=st.integers(0, 2**32)
)
@settings(max_examples=60)
def test_two_logs_mixed_line_by_line_give_no_value_that_neither_has(samples: list[Sample], seed: int) -> None:
    by = random.Random(seed)
    queues = [sample.lines for sample in samples]
    mixed = [
        queues[0 if not queues[1] or (queues[0] and by.random() < 0.5) else 1].pop(0)
        for _ in range(sum(map(len, queues)))
    ]

    reading = read(mixed)

    assert all(
        any(invented_none(name, said, sample) for sample in samples) for (_, name), said in values(reading).items()
    )


def invented_none(name: str, said: Said, sample: Sample) -> bool:
    return any(_alike(said, other) for (_, known), other in values(WHOLE[sample.name]).items() if known == name)


@given(st.lists(st.text(max_size=300), max_size=40))
@settings(max_examples=40)
def test_any_text_is_read_without_failing(lines: list[str]) -> None:
    reading = read(lines)

    assert reading.lines == len(lines)


@given(sample=st.sampled_from(SAMPLES), junk=st.text(min_size=1, max_size=40), seed=st.integers(0, 2**32))
@settings(max_examples=40)
def test_junk_inside_a_line_never_makes_it_fail(sample: Sample, junk: str, seed: int) -> None:
    by = random.Random(seed)
    lines = sample.lines
    for _ in range(5):
        at = by.randrange(len(lines))
        column = by.randrange(len(lines[at]))
        lines[at] = lines[at][:column] + junk + lines[at][column:]

    assert read(lines).lines == len(lines)


HARD_LINES = {
    "one sign": "x" * 2**18,
    "opened brackets": "non-default args: {" + "(" * 2**18,
    "opened quotes": "non-default args: {'a': '" + "\\'" * 2**17,
    "digits": "Available KV cache memory: " + "9" * 2**18,
    "digits and dots": "GPU KV cache size: " + "1,111" * 2**16 + " tokens",
    "blanks": "llama_context: n_ctx" + " " * 2**18 + "= 5",
    "a setting each": "Initializing a V1 LLM engine (v0.11.0) with config: " + "a=1, " * 2**16,
    "a hint again and again": "KV cache " * 2**15,
    "nested JSON": '{"log": ' * 2**15,
    "colours": "\x1b[31m" * 2**16,
}


@pytest.mark.parametrize("name", sorted(HARD_LINES))
def test_a_long_line_takes_no_longer_than_it_is_long(name: str) -> None:
    whole, half = HARD_LINES[name], HARD_LINES[name][: len(HARD_LINES[name]) // 4]
    read([half])

    # Four times as long; a search that goes back would take sixteen times.
    assert least_seconds(lambda: read([whole])) < 10 * least_seconds(lambda: read([half])) + 0.05


@pytest.mark.parametrize("seed", range(4))
def test_what_a_damaged_log_says_is_what_one_whole_log_says(seed: int) -> None:
    """A sample of what `python -m tests.domain.logs.fuzzing` does at length."""
    found = [(case.how, [sample.name for sample in case.of], case.wrong()) for case in islice(cases(seed), 100)]

    assert [lies for lies in found if lies[2]] == []
