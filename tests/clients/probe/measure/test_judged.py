"""What a service would make of rows as a card would send them: accepted where they are honest, caught where not."""

from argparse import ArgumentParser
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from flask import Flask

from kvquote_probe.measure import kv
from kvquote_probe.measure.setting import Bench, add_device_arguments
from kvquote_probe.readings import Reading
from kvquote_probe.rows import make_row
from service.api.schemas.measurement_rows import read_row
from service.api.services import services_of
from service.domain.measurement import Judgement, Lookups, Verdict, judge

PROBE = "0b5f2d0e-8f0c-4c6e-9d57-3f1c2b1d9a10"
H100 = {"name": "NVIDIA H100 80GB HBM3", "memory_bytes": 84_929_347_584, "compute_capability": "9.0", "count": 1}


def judged(app: Flask, reading: Reading) -> Judgement:
    """The judgement of a reading as if a card had given it."""
    read = read_row(make_row(replace(reading, gpu=H100), PROBE), 3)
    assert read.content is not None, read.faults
    return judge(read.content, datetime.now(UTC), Lookups(services_of(app).keeper.current()))


def allocated(bench: Bench, line: str) -> Reading:
    parser = ArgumentParser()
    add_device_arguments(parser)
    kv.add_arguments(parser)
    (reading,) = kv.measure(parser.parse_args([*line.split(), "--sequences", "1"]), lambda _: None, bench)
    return reading


@pytest.mark.parametrize(
    "line",
    [
        "--model llama-2-7b --context 512",
        "--model llama-3.1-8b-instruct --context 1024 --kv-dtype fp8",
        "--model gemma-3-27b-it --context 2048",
        "--model deepseek-v3 --context 2048 --kv-dtype fp8_ds_mla",
        "--model qwen3-next-80b-a3b-instruct --context 2048",
    ],
)
def test_what_a_cache_really_takes_is_accepted(app: Flask, bench: Bench, line: str) -> None:
    assert judged(app, allocated(bench, line)) == Judgement(Verdict.ACCEPTED, None, "h100-sxm-80gb", line.split()[1])


def test_a_rate_of_another_type_than_is_told_is_quarantined(app: Flask, bench: Bench) -> None:
    reading = allocated(bench, "--model llama-2-7b --context 512")
    told: dict[str, Any] = {**(reading.setup or {}), "kv_dtype": "fp8"}

    assert judged(app, replace(reading, setup=told)).verdict is Verdict.QUARANTINED
