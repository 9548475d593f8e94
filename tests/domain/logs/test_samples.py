"""Each log of tests/data/logs says what is written beside it, and nothing else."""

import pytest

from service.domain.logs import NAMES, read
from tests.domain.logs.samples import FOLDER, SAMPLES, Sample

# What the settings say beside the figures; written down where a log is about them.
SETTINGS = {"compute_dtype", "weight_dtype", "kv_dtype", "pipeline_parallel", "data_parallel", "tensor_parallel"}
SETTINGS |= {"block_tokens", "max_batched_tokens", "concurrency_context_tokens", "max_sequences_limit", "model"}

each_sample = pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)


def test_every_log_is_described_and_no_description_is_without_its_log() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.log")) == [sample.name for sample in SAMPLES]
    assert len(SAMPLES) >= 30


@each_sample
def test_it_says_what_it_says(sample: Sample) -> None:
    reading = read(sample.lines)

    said = {name: value.value for name, value in reading.said.items()}
    assert (reading.engine, reading.version) == (sample.engine, sample.version)
    assert {name: said.get(name) for name in sample.said} == sample.said
    assert set(said) <= set(NAMES)


@each_sample
def test_figures_that_are_not_written_beside_it_are_not_said(sample: Sample) -> None:
    figures = {name for name in read(sample.lines).said if name not in SETTINGS}

    assert sorted(figures - set(sample.said)) == []


@each_sample
def test_ranks_keep_what_they_say_apart(sample: Sample) -> None:
    ranks = {rank.worker: {name: said.value for name, said in rank.said.items()} for rank in read(sample.lines).ranks}

    for worker, said in sample.ranks.items():
        assert {name: ranks[worker].get(name) for name in said} == said


@each_sample
def test_what_cannot_be_told_is_left_out_with_a_reason(sample: Sample) -> None:
    reading = read(sample.lines)
    left_out = {each.what for each in reading.left_out}

    assert sample.left_out <= left_out
    assert sample.left_out & set(reading.said) == frozenset()
    assert all(each.reason for each in reading.left_out)


@each_sample
def test_a_refusal_says_what_was_needed_and_what_would_do(sample: Sample) -> None:
    refusal = read(sample.lines).refusal

    if sample.refusal is None:
        assert refusal is None
    else:
        assert refusal is not None
        said = {name: value for name, value in refusal._asdict().items() if value is not None and name != "line"}
        assert said == sample.refusal


@each_sample
def test_every_value_names_the_line_that_it_stands_in(sample: Sample) -> None:
    reading = read(sample.lines)
    everything = [*reading.said.values(), *(said for rank in reading.ranks for said in rank.said.values())]

    assert reading.lines == len(sample.lines)
    assert all(1 <= said.line <= len(sample.lines) for said in everything)


@each_sample
def test_starts_are_counted(sample: Sample) -> None:
    reading = read(sample.lines)

    assert reading.starts == sample.starts
    assert (reading.starts > 1) == any("starts" in warning for warning in reading.warnings)
