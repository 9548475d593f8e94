"""Settings that engines print: only what is plain and finite is taken."""

import pytest

from service.domain.logs.settings import parse


@pytest.mark.parametrize("printed", ["1e400", "-1e999", "1e999"])
def test_a_number_that_is_none_is_left_as_text(printed: str) -> None:
    found = parse(f"{{'swap_space': {printed}, 'seed': 1}}")
    assert (found.values, found.nested) == ({"seed": 1}, {"swap_space": printed})
