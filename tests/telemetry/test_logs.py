"""Log lines: one JSON object each, whoever wrote it, and never a line that a client made up."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from flask import Flask

from service.settings import LogFormat, Settings
from service.telemetry import logs, request_ids

PASSWORD = "hunter2"


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    # Taken off first, so that configure() does not close what pytest still writes to.
    root.handlers = []
    yield
    root.handlers, root.level = handlers, level
    structlog.reset_defaults()


@pytest.fixture
def stream() -> io.StringIO:
    return io.StringIO()


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_our_lines_and_the_libraries_look_alike(stream: io.StringIO) -> None:
    logs.configure(Settings(), stream)

    structlog.get_logger("service.x").warning("happened", count=3)
    logging.getLogger("library").warning("happened %d times", 3)

    ours, theirs = lines(stream)
    assert {"event", "level", "logger", "timestamp"} <= set(ours) & set(theirs)
    assert (ours["event"], ours["count"], ours["logger"]) == ("happened", 3, "service.x")
    assert (theirs["event"], theirs["level"]) == ("happened 3 times", "warning")


def test_the_time_is_in_utc(stream: io.StringIO) -> None:
    logs.configure(Settings(), stream)

    structlog.get_logger().info("happened")

    assert lines(stream)[0]["timestamp"].endswith("Z")


def test_an_exception_is_one_line_with_its_traceback(stream: io.StringIO) -> None:
    logs.configure(Settings(), stream)

    structlog.get_logger().error("failed", exc_info=ValueError("reason"))

    assert "ValueError: reason" in lines(stream)[0]["exception"]


def test_a_line_break_in_a_value_makes_no_line(stream: io.StringIO) -> None:
    logs.configure(Settings(), stream)

    structlog.get_logger().info("happened", agent='x\n{"event":"forged"}')
    logging.getLogger("library").warning('x\n{"event":"forged"}')

    assert len(lines(stream)) == 2


def test_levels_below_the_setting_are_left_out(stream: io.StringIO) -> None:
    logs.configure(Settings(log_level="warning"), stream)

    structlog.get_logger().info("happened")
    logging.getLogger("library").info("happened")

    assert stream.getvalue() == ""


def test_a_line_of_a_request_carries_its_name(stream: io.StringIO) -> None:
    logs.configure(Settings(), stream)

    with Flask("x").test_request_context(environ_overrides={request_ids.ENVIRON_KEY: "mine"}):
        logging.getLogger("library").warning("happened")

    assert lines(stream)[0]["request_id"] == "mine"


def test_the_console_shows_no_local_variables(stream: io.StringIO) -> None:
    logs.configure(Settings(log_format=LogFormat.CONSOLE), stream)

    def fail(password: str) -> None:
        raise ValueError(f"{len(password)} characters")

    try:
        fail(PASSWORD)
    except ValueError:
        structlog.get_logger().exception("failed")

    assert "ValueError: 7 characters" in stream.getvalue()
    assert PASSWORD not in stream.getvalue()


def test_the_access_log_writes_the_same_shape(stream: io.StringIO) -> None:
    write = logs.access_log(Settings(), stream)
    assert write is not None

    write({"request_id": "mine", "route": "/fit", "status": 200})

    (line,) = lines(stream)
    assert (line["event"], line["level"], line["request_id"], line["status"]) == ("http_request", "info", "mine", 200)
    assert line["timestamp"].endswith("Z")


def test_the_access_log_is_readable_on_a_console(stream: io.StringIO) -> None:
    write = logs.access_log(Settings(log_format=LogFormat.CONSOLE), stream)
    assert write is not None

    write({"request_id": "mine", "status": 200})

    assert "http_request" in stream.getvalue()
    assert "status=200" in stream.getvalue()
    assert stream.getvalue().split()[0].endswith("Z")


def test_there_is_no_access_log_above_its_level() -> None:
    assert logs.access_log(Settings(log_level="warning")) is None
