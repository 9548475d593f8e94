import pytest

from service.domain.errors import a_letter_away


@pytest.mark.parametrize("other", ["abc", "abxcd", "abcde", "xabcd", "abxd", "bacd", "abdc", "bcd"])
def test_a_letter_too_many_too_few_wrong_or_swapped_is_a_letter_away(other: str) -> None:
    assert a_letter_away(other, "abcd")
    assert a_letter_away("abcd", other)


@pytest.mark.parametrize("other", ["abcd", "ab", "abcdef", "xbxd", "cbad", "", "dcba", "badc"])
def test_more_than_that_or_nothing_is_not(other: str) -> None:
    assert not a_letter_away(other, "abcd")
    assert not a_letter_away("abcd", other)
