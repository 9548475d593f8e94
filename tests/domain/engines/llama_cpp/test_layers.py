"""Where llama.cpp puts layers, by how many go to devices and how these share them."""

import pytest

from service.domain.engines.llama_cpp.layers import placement


def test_all_layers_and_the_output_go_to_one_device() -> None:
    found = placement(4, (1.0,), -1, output_first=True)
    assert found.devices == (frozenset(range(4)),)
    assert found.output == 0


def test_the_last_layers_go_first() -> None:
    found = placement(4, (1.0,), 3, output_first=True)
    assert found.devices == (frozenset({2, 3}),)
    assert found.output == 0


def test_older_builds_keep_the_output_for_last() -> None:
    found = placement(4, (1.0,), 3, output_first=False)
    assert found.devices == (frozenset({1, 2, 3}),)
    assert found.output is None
    assert placement(4, (1.0,), 5, output_first=False).output == 0


def test_layers_follow_the_split_in_order() -> None:
    found = placement(
        7,
        (
            3,
            1,
        ),
        -1,
        output_first=True,
    )
    assert found.devices == (frozenset(range(6)), frozenset({6}))
    assert found.output == 1


@pytest.mark.parametrize("split", [[1, 1, 1], [5, 1], [0, 1], [0.1, 0.2, 0.7]])
@pytest.mark.parametrize("gpu_layers", [-1, 1, 7, 40, 99])
def test_every_placed_layer_stands_on_one_device(split: list[float], gpu_layers: int) -> None:
    found = placement(40, tuple(split), gpu_layers, output_first=True)
    placed = [layer for held in found.devices for layer in held]
    count = 41 if gpu_layers < 0 else min(gpu_layers, 41)
    assert len(placed) == len(set(placed)) == count - 1
    sharing = [device for device, share in enumerate(split) if share]
    # Alone, the output is the first of what is placed; otherwise it is the last.
    assert found.output == (sharing[0] if count == 1 else sharing[-1])


def test_no_layers_leave_all_to_the_host() -> None:
    found = placement(4, (1.0,), 0, output_first=True)
    assert found.devices == (frozenset(),)
    assert found.output is None
