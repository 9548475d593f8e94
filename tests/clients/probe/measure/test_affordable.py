"""Which sizes of a step are timed where there is little time, on a device whose clock is planted."""

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from kvquote_probe.measure.device import Cpu
from kvquote_probe.measure.layer import fill
from kvquote_probe.measure.stack import Size, affordable_sizes

COUNTS, LENGTHS = (1, 8, 32, 128), (512, 2048, 8192)
SIZES = list(product(COUNTS, LENGTHS))
Key = tuple[int, Size]


class Planted(Cpu):
    """Steps that take what `took` says of them; `spent` is all that was run."""

    def __init__(self, took: Callable[[Key], float]) -> None:
        super().__init__()
        self.spent = 0.0
        self._took = took
        self.works = {key: self._work(key) for key in product((1, 2, 3), SIZES)}

    def _work(self, key: Key) -> Callable[[], float]:
        return lambda: self._took(key)

    def seconds(self, work: Callable[[], Any]) -> float:
        took: float = work()
        self.spent += took
        return took


def of_tokens(each: float, fixed: float = 0.0) -> Callable[[Key], float]:
    return lambda key: fixed + each * key[0] * key[1][0] * key[1][1]


def test_a_quick_device_times_all_of_them() -> None:
    device = Planted(of_tokens(1e-9))

    assert sorted(affordable_sizes(device, device.works, 60)) == SIZES


@pytest.mark.parametrize("each", [2e-5, 5e-5, 1e-4])
def test_a_slow_one_leaves_out_the_longest_and_stays_in_time(each: float) -> None:
    took = of_tokens(each)
    device = Planted(took)
    sizes = affordable_sizes(device, device.works, 600)
    rounds = 4 * sum(took((layers, size)) for layers in (1, 2, 3) for size in sizes)

    assert len(sizes) < len(SIZES)
    assert min(len({size[at] for size in sizes}) for at in (0, 1)) >= 2
    assert rounds <= 600
    assert device.spent <= 600
    assert max(count * length for count, length in sizes) <= min(
        count * length for count, length in SIZES if (count, length) not in sizes
    )


def test_two_counts_and_two_lengths_there_are_always() -> None:
    device = Planted(of_tokens(1.0))

    sizes = affordable_sizes(device, device.works, 1)
    assert min(len({size[at] for size in sizes}) for at in (0, 1)) == 2


def test_what_weights_take_is_not_foretold_as_what_tokens_take() -> None:
    device = Planted(of_tokens(1e-9, fixed=0.5))

    assert sorted(affordable_sizes(device, device.works, 60 * len(SIZES))) == SIZES


def test_a_fill_is_random_all_over() -> None:
    torch = pytest.importorskip("torch")
    made = torch.zeros(3000, 4096)
    fill(made, 0.5)

    assert abs(float(made.std()) - 0.5) < 0.01
    assert abs(float(made.mean())) < 0.01
    assert not bool((made[0] == made[1024]).any())
    assert not bool((made[0] == made[2048]).all())
