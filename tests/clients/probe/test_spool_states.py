"""The spool under any order of what is done to it: no row is lost, none is there twice."""

import tempfile
from pathlib import Path
from uuid import uuid4

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kvquote_probe.spool import REFUSED, Answered, Spool

VERDICTS = st.sampled_from(["accepted", "unmatched", "quarantined", "duplicate", "rejected", "conflict"])


class Life(RuleBasedStateMachine):
    """A spool beside what it should hold: ids that wait in order, ids that are aside, and how many were answered."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(prefix="kvquote-spool-")
        self.spool = Spool(Path(self.folder.name))
        self.waiting: list[str] = []
        self.aside: list[str] = []
        self.answered = 0

    @rule(count=st.integers(1, 5))
    def add(self, count: int) -> None:
        ids = [str(uuid4()) for _ in range(count)]
        self.spool.add({"id": row_id} for row_id in ids)
        self.waiting += ids

    @rule(count=st.integers(1, 4), verdicts=st.lists(VERDICTS, min_size=4, max_size=4))
    def answer(self, count: int, verdicts: list[str]) -> None:
        batch = self.spool.batch(count)
        assert [kept.id for kept in batch] == self.waiting[:count]
        answers = [Answered(kept, verdict) for kept, verdict in zip(batch, verdicts, strict=False)]
        self.spool.settle(answers)
        self.waiting = self.waiting[len(batch) :]
        self.aside += [answer.row.id for answer in answers if answer.verdict in REFUSED]
        self.answered += len(answers)

    @rule(verdict=VERDICTS)
    def answer_and_fail(self, verdict: str) -> None:
        """What fails half-way has not happened."""
        batch = self.spool.batch(2)
        broken = [Answered(kept, verdict) for kept in batch] + [Answered(None, verdict)]  # type: ignore[arg-type]
        try:
            self.spool.settle(broken)
        except AttributeError:
            return
        raise AssertionError("it was taken")

    @rule()
    def send_again(self) -> None:
        assert self.spool.send_again() == len(self.aside)
        self.waiting, self.aside = self.waiting + self.aside, []

    @rule()
    def tidy(self) -> None:
        self.spool.tidy()

    @rule()
    def open_again(self) -> None:
        """Without closing it, as after a kill."""
        former = self.spool
        self.spool = Spool(Path(self.folder.name))
        assert self.spool.recovery is None
        former.close()

    @invariant()
    def holds_what_it_should(self) -> None:
        assert [kept.id for kept in self.spool.batch()] == self.waiting
        assert [row.id for row in self.spool.aside()] == self.aside
        counts = self.spool.counts()
        assert (counts.waiting, counts.aside) == (len(self.waiting), len(self.aside))
        assert sum(counts.answered.values()) == self.answered

    def teardown(self) -> None:
        self.spool.close()
        self.folder.cleanup()


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=8, stateful_step_count=20)
