"""Start-up logs of real shape, read by the service's own reader, become rows that the service takes."""

import json
from pathlib import Path

import pytest

from kvquote_probe.engine.logs import read_log
from kvquote_probe.engine.site import EngineError
from kvquote_probe.engine.telling import Told
from kvquote_probe.readings import Reading
from kvquote_probe.rows import encoded, make_row
from service.api.schemas.measurement_rows import read_row

LOGS = sorted((Path(__file__).parents[4] / "tests" / "data" / "logs").glob("*.log"))
PROBE = "7f6d1f8e-2f0e-4a53-8f0b-0c4f6f1f9b11"


def told_by(path: Path) -> list[Reading] | str:
    """What a log tells, or the reason why it tells nothing."""
    try:
        return read_log(str(path), Told())
    except EngineError as error:
        return str(error)


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_a_log_becomes_a_row_that_the_service_takes_or_a_reason(path: Path) -> None:
    told = told_by(path)

    if isinstance(told, str):
        assert told.endswith(".")
    else:
        assert [read_row(json.loads(encoded(make_row(reading, PROBE))), 3).faults for reading in told] == [[]] * len(
            told
        )


def test_most_logs_tell_a_capacity() -> None:
    assert sum(isinstance(told_by(path), list) for path in LOGS) >= len(LOGS) / 2
