"""Releases: their order, those that never were, and what is said of one whose rules were not checked."""

import pytest

from service.domain.engines.versions import Timeline, parse
from service.domain.errors import ValidationError

PUBLISHED = ("0.6.4", "0.6.4.post1", "0.6.5", "0.10.0", "0.11.0", "0.12.0")
RISING = (
    "0.9.2",
    "0.10.0.dev3",
    "0.10.0rc1",
    "0.10.0rc1.post1",
    "0.10.0rc2.dev7",
    "0.10.0rc2",
    "0.10.0",
    "0.10.0.post1",
)


@pytest.fixture(scope="module")
def timeline() -> Timeline:
    return Timeline(PUBLISHED, ("0.6.5", "0.11.0"), "vLLM")


def test_candidates_and_builds_come_before_their_release_and_posts_after_it() -> None:
    assert sorted(RISING, key=parse) == list(RISING)


@pytest.mark.parametrize("other", ["v0.10.0", "0.10", "0.10.0.0", " 0.10.0+cu129 ", "0.10.0+local.1"])
def test_a_release_has_one_place_however_it_is_written(other: str) -> None:
    assert parse(other) == parse("0.10.0")


@pytest.mark.parametrize(
    "text", ["", "latest", "0.x", "0.10.0 ; rm", "1.2.3.4.5", "0.10.0-", "99999.0", "\u0660.\u0661"]
)
def test_what_is_no_release_is_refused(timeline: Timeline, text: str) -> None:
    with pytest.raises(ValidationError, match="is not written as a release"):
        timeline.find(text)


@pytest.mark.parametrize("text", ["0.7.7", "0.11.3", "0.6.5.post1", "0.10.0.post9"])
def test_a_release_that_never_was_is_refused(timeline: Timeline, text: str) -> None:
    with pytest.raises(ValidationError, match=f"never released as {text}"):
        timeline.find(text)


def test_a_refused_release_is_answered_with_those_of_a_like_name(timeline: Timeline) -> None:
    with pytest.raises(ValidationError) as refused:
        timeline.find("0.11.9")
    assert "0.11.0" in refused.value.faults[0].nearest


def test_a_release_before_the_first_one_is_refused(timeline: Timeline) -> None:
    with pytest.raises(ValidationError, match=r"no release before 0\.6\.4"):
        timeline.find("0.0.1")


@pytest.mark.parametrize("text", ["0.10.1rc1", "0.11.1.dev40", "0.12.0rc2.dev134+g1234"])
def test_builds_on_the_way_to_a_release_are_taken(timeline: Timeline, text: str) -> None:
    assert timeline.find(text) == parse(text)


def test_a_release_past_the_newest_known_is_taken(timeline: Timeline) -> None:
    assert timeline.find("0.13.1") == parse("0.13.1")


def test_nothing_is_said_of_a_release_whose_rules_were_checked(timeline: Timeline) -> None:
    assert timeline.note("0.11.0", parse("0.11.0")) is None


def test_a_release_between_two_checked_ones_says_that_the_older_speaks_for_it(timeline: Timeline) -> None:
    note = timeline.note("0.10.0", parse("0.10.0"))
    assert note == "vLLM 0.10.0 lies between 0.6.5 and 0.11.0: quoted by the rules of the older"


def test_a_candidate_of_a_checked_release_lies_before_it(timeline: Timeline) -> None:
    note = timeline.note("0.11.0rc1", parse("0.11.0rc1"))
    assert note is not None
    assert "between 0.6.5 and 0.11.0" in note


def test_a_release_after_the_last_checked_one_says_whose_rules_it_gets(timeline: Timeline) -> None:
    note = timeline.note("0.12.0", parse("0.12.0"))
    assert note == "the rules of vLLM 0.12.0 were not checked: quoted by those of 0.11.0"


def test_a_release_newer_than_all_says_so(timeline: Timeline) -> None:
    note = timeline.note("0.14.0", parse("0.14.0"))
    assert note is not None
    assert "newer than 0.12.0, the newest known" in note


def test_a_release_before_every_checked_one_says_so(timeline: Timeline) -> None:
    note = timeline.note("0.6.4", parse("0.6.4"))
    assert note is not None
    assert "older than the oldest release whose rules were checked, 0.6.5" in note


def test_a_release_cannot_have_been_checked_that_was_never_published() -> None:
    with pytest.raises(ValueError, match=r"0\.11\.5 were checked but never published"):
        Timeline(PUBLISHED, ("0.11.5",), "vLLM")
