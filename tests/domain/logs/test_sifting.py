"""A text in pieces says what its lines say, however few of them are looked at, and hostile ones take no time."""

import json
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.domain.logs import read, read_text
from tests.computing import least_seconds
from tests.domain.logs.samples import SAMPLES, Sample

MEBIBYTE = 1 << 20
CACHE = "(EngineCore pid=7) INFO 11-02 04:21:11 [gpu_worker.py:456] Available KV cache memory: 58.11 GiB"


def pieces(text: str, size: int) -> Iterator[str]:
    return (text[at : at + size] for at in range(0, len(text), size))


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_a_text_says_what_its_lines_say(sample: Sample) -> None:
    lines = [f"{line}\n" for line in sample.text.split("\n")]
    lines = lines[:-1] if lines[-1] == "\n" else lines

    for size in (7, 1000, 1 << 16):
        assert read_text(pieces(sample.text, size)) == read(lines)


@given(sample=st.sampled_from(SAMPLES), before=st.integers(0, 3000), size=st.integers(50, 5000))
@settings(max_examples=40)
def test_lines_keep_their_numbers_among_many_that_say_nothing(sample: Sample, before: int, size: int) -> None:
    noise = ["\n", "INFO: 10.0.0.9:51234 - GET /health\n", "\x1b[32mgreen\x1b[0m\n"]
    lines = [noise[at % 3] for at in range(before)]
    lines += [f"{line}\n" for line in sample.text.rstrip("\n").split("\n")]

    assert read_text(pieces("".join(lines), size)) == read(lines)


@pytest.mark.parametrize(
    "text",
    [
        # A line in two parts, of which neither has the whole of what is looked for.
        "2025-11-02T04:25:00.123456789Z stdout P " + "x" * 9000 + " " + CACHE[:75] + "\n"
        "2025-11-02T04:25:00.123456789Z stdout F " + CACHE[75:] + "\n",
        json.dumps({"log": CACHE[:75], "stream": "stderr"})
        + "\n"
        + json.dumps({"log": CACHE[75:] + "\n", "stream": ""}),
        # What is looked for in other signs.
        '{"message": "' + CACHE.replace("KV", "\\u004bV") + '"}\n',
        CACHE.replace("KV", "K\x1b[31mV\x1b[0m"),
        json.dumps({"log": 'time=now level=INFO msg="kv cache" device=CUDA0 size="1.5 GiB"\n', "stream": "stderr"}),
    ],
)
def test_what_is_looked_for_is_found_in_whatever_it_is_packed(text: str) -> None:
    lines = [f"{line}\n" for line in text.rstrip("\n").split("\n")]

    reading = read_text(["\n" * 10, text])

    assert reading.engine is not None
    assert reading == read(["\n"] * 10 + lines)


HOSTILE = {
    "newlines": "\n",
    "ends of Windows": "\r\n",
    "one sign each": "a\n",
    "blanks": "  \n",
    "times": "INFO 11-02 04:25:00 [x.py:1]\n",
    "runtime's times": "2025-11-02T04:25:00.123456789Z stdout F \n",
    "one line": "x",
    "zeros": "\0",
    "colours": "\x1b[31m",
    "colours on lines": "\x1b[31mab\x1b[0m\n",
    "a progress bar": "\rLoading safetensors checkpoint shards:  25% Completed | 1/4 [00:00<00:02,  1.4it/s]",
    "JSON": '{"log":"a\\n","stream":"stderr"}\n',
    "braces": "{\n",
    "bars": "a | b\n",
}


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_a_mebibyte_of_what_says_nothing_takes_a_fraction_of_a_second(name: str) -> None:
    text = HOSTILE[name] * (MEBIBYTE // len(HOSTILE[name]))
    read_text([text])

    # A microsecond for each line would be a second; 0.05 s on a quiet machine.
    assert least_seconds(lambda: read_text(pieces(text, 1 << 16))) < 0.3


def test_pieces_that_a_shipper_took_the_ends_off_take_no_longer_each_than_few() -> None:
    stripped = json.dumps({"log": "INFO 12-01 gpu_memory", "stream": "stdout"}) + "\n"

    def seconds(size: int) -> float:
        return least_seconds(lambda: read_text(pieces(stripped * (size // len(stripped)), 1 << 16)))

    assert seconds(MEBIBYTE) < 8 * seconds(MEBIBYTE // 4)


def test_many_processes_take_no_longer_each_than_few() -> None:
    line = "(Worker_TP{0} pid={0}) INFO 12-01 10:00:00 [gpu_worker.py:1] Available KV cache memory: 10.0 GiB\n"

    def seconds(count: int) -> float:
        text = "".join(line.format(rank) for rank in range(count))
        return least_seconds(lambda: read_text([text]))

    assert seconds(6000) < 12 * seconds(1000)
