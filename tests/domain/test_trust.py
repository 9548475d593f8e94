"""Rows of senders that are not believed are set aside whatever they say, and only from the time that was decided."""

from datetime import UTC, datetime, timedelta

import pytest

from service.domain.trust import NOBODY_DISTRUSTED, Decision, Distrust, Sender

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
PROBE, TOKEN = "7f6d1f8e-2f0e-4a53-8f0b-0c4f6f1f9b11", "abcdefghijk"


@pytest.mark.parametrize("sender, sender_id", [(Sender.PROBE, PROBE), (Sender.TOKEN, TOKEN)])
def test_either_sender_speaks_against_a_row(sender: Sender, sender_id: str) -> None:
    distrust = Distrust(1, {(sender, sender_id): Decision(NOON, "it lies")})

    assert distrust.against(PROBE, TOKEN, NOON) == f"Its {sender} is not trusted: it lies"
    assert distrust.against(PROBE, TOKEN, NOON - timedelta(seconds=1)) is None
    assert distrust.against(PROBE[::-1], TOKEN[::-1], NOON) is None


def test_without_a_time_it_is_all_rows() -> None:
    distrust = Distrust(1, {(Sender.PROBE, PROBE): Decision(None, "it lies")})

    assert distrust.against(PROBE, TOKEN, datetime.min.replace(tzinfo=UTC))


def test_a_token_is_no_probe_of_that_name() -> None:
    distrust = Distrust(1, {(Sender.TOKEN, PROBE): Decision(None, "it lies")})

    assert distrust.against(PROBE, TOKEN, NOON) is None
    assert NOBODY_DISTRUSTED.against(PROBE, TOKEN, NOON) is None
