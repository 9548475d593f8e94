"""How long a sequence may become in a pool."""

import pytest

from service.domain.loads import whole_load
from tests.domain.conftest import Shelf


@pytest.mark.parametrize("name", ["mamba-2.8b", "jamba-v0.1"])
def test_a_pool_below_the_state_of_one_sequence_holds_none_of_any_length(shelf: Shelf, name: str) -> None:
    model, number = shelf.model(name), shelf.format("bf16")
    assert number.weight
    assert number.cache
    load = whole_load(model, number.weight, number.cache)
    state = sum(term.fixed_bytes for term in load.terms)

    assert load.longest(state - 1) == 0
    assert load.longest(state) == (None if name == "mamba-2.8b" else 0)
    assert load.longest(state + load.growth_bytes(1)) == (None if name == "mamba-2.8b" else 1)
