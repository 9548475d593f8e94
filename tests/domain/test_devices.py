"""What memory a device has by the catalog."""

import pytest

from service.domain.errors import NotSupported
from tests.domain.conftest import Ask


def test_visible_memory_that_nobody_saw_is_not_made_up(ask_fit: Ask) -> None:
    asked = {"model": "llama-2-7b", "gpu": "mi455x", "engine": "none"}
    with pytest.raises(NotSupported, match="does not know the visible memory of mi455x") as caught:
        ask_fit(**asked, memory_basis="visible")

    assert caught.value.faults[0].pointer == "/memory_basis"
    assert ask_fit(**asked)["question"]["memory_basis"] == "advertised"
