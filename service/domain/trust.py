"""Whose measurements an operator has decided not to believe: a probe's, or all that came with a token."""

from __future__ import annotations

from enum import StrEnum, unique
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime


@unique
class Sender(StrEnum):
    """What rows come from, and may be distrusted by."""

    PROBE = "probe"
    TOKEN = "token"  # noqa: S105  # the word


class Decision(NamedTuple):
    """Why a sender's rows are not believed; `since` is a time of arrival, None for all of them.

    Of arrival and not of measuring, for the latter is what the sender says.
    """

    since: datetime | None
    reason: str


class Distrust(NamedTuple):
    """Every sender that is distrusted at one revision of these decisions: a UUID of a probe, a public id of a token."""

    revision: int
    senders: Mapping[tuple[Sender, str], Decision]

    def against(self, probe_id: str, token_id: str, received_at: datetime) -> str | None:
        """What speaks against a row of that probe and token, whatever it says; None where both are trusted."""
        if not self.senders:
            return None
        for sender in ((Sender.PROBE, probe_id), (Sender.TOKEN, token_id)):
            decision = self.senders.get(sender)
            if decision is not None and (decision.since is None or received_at >= decision.since):
                return f"Its {sender[0]} is not trusted: {decision.reason}"
        return None


NOBODY_DISTRUSTED = Distrust(0, {})
