"""Names of requests."""

from typing import Any

import pytest

from service.telemetry import request_ids


@pytest.mark.parametrize("given", ["a", "A-1._b", "x" * 64, "0"])
def test_a_name_that_can_be_repeated_is_kept(given: str) -> None:
    environ: dict[str, Any] = {"HTTP_X_REQUEST_ID": given}

    assert request_ids.assign(environ) == given
    assert environ[request_ids.ENVIRON_KEY] == given


@pytest.mark.parametrize("given", [None, "", "x" * 65, "a b", "a\nb", "é", '"a"', "a;b", "a\n"])
def test_any_other_is_replaced(given: str | None) -> None:
    environ: dict[str, Any] = {} if given is None else {"HTTP_X_REQUEST_ID": given}

    made = request_ids.assign(environ)

    assert made != given
    assert len(made) == 32


def test_no_two_made_names_are_alike() -> None:
    assert len({request_ids.assign({}) for _ in range(1000)}) == 1000


TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.mark.parametrize(
    "given, trace",
    [
        (f"00-{TRACE}-00f067aa0ba902b7-01", TRACE),
        (f"cc-{TRACE}-00f067aa0ba902b7-01-what-the-future-adds", TRACE),
        (None, None),
        ("00-short-00f067aa0ba902b7-01", None),
        (f"00-{TRACE.upper()}-00f067aa0ba902b7-01", None),
        (TRACE, None),
    ],
)
def test_the_trace_of_a_request_is_read(given: str | None, trace: str | None) -> None:
    assert request_ids.trace_id({} if given is None else {"HTTP_TRACEPARENT": given}) == trace
