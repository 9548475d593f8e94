"""Layouts that a model cannot be split into, and what is offered instead."""

import pytest

from service.domain.errors import ValidationError
from service.domain.parallel import Layout, check_layout, layers_within
from tests.domain.conftest import Ask, Shelf

MIXTRAL = "mixtral-8x7b-instruct-v0.1"


def test_experts_are_not_spread_over_more_ranks_than_there_are(shelf: Shelf) -> None:
    architecture = shelf.model(MIXTRAL).architecture
    check_layout(Layout(8, expert=True), architecture)
    check_layout(Layout(16), architecture)

    with pytest.raises(ValidationError, match="8 experts cannot be spread over 16 ranks") as caught:
        check_layout(Layout(16, expert=True), architecture)

    assert [fault.pointer for fault in caught.value.faults] == ["/expert_parallel"]


def test_a_shortage_offers_no_ranks_that_the_experts_cannot_be_spread_over(ask_fit: Ask) -> None:
    """With nothing narrower or shorter left to ask, 16 ranks hold a sequence more by slicing attention."""
    narrow = {"weight_dtype": "int4", "kv_dtype": "int4", "context_tokens": 1, "reserve_bytes": 0}
    asked = {"model": MIXTRAL, "engine": "none", "tensor_parallel": 8, "memory_bytes": 4 * 10**9, **narrow}
    batch = ask_fit(**asked)["max_sequences"] + 1

    sliced, spread = (ask_fit(**asked, batch_size=batch, expert_parallel=spread) for spread in (False, True))

    assert sliced["max_sequences"] == spread["max_sequences"] == batch - 1
    assert sliced["shortage"]["nearest_change"] == {"tensor_parallel": 16}
    assert spread["shortage"]["nearest_change"] is None


@pytest.mark.parametrize(
    "own, stage, within",
    [
        ((0, 2, 4, 6), range(1, 5), (2, 4)),
        ((0, 2, 4, 6), range(7), (0, 2, 4, 6)),
        ((0, 2, 4, 6), range(7, 9), ()),
        ((), range(7), ()),
        ((0, 2), range(0), ()),
    ],
)
def test_a_stage_has_those_of_the_layers_that_stand_on_it(
    own: tuple[int, ...], stage: range, within: tuple[int, ...]
) -> None:
    assert layers_within(own, stage) == within
