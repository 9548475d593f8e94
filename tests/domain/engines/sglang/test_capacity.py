"""SGLang's pool from free memory before and after loading, as its own start-up lines print it."""

import pytest

from service.domain.engines.sglang.capacity import pool_bytes

GIB = 1 << 30

# Free before loading, free after, the share, and the pool that was printed, in GiB.
PRINTED = [
    # sgl-project/sglang 18263, Qwen3-30B-A3B on MI35x: initial available_bytes 219721119039.
    (287.18, 230.20, 0.911, 219_721_119_039 / GIB),
    # sgl-project/sglang 18263 again: what remained free of 204.63 after keys and values of 152.88.
    (287.18, 230.20, 0.911, 152.88 + 51.75),
]


@pytest.mark.parametrize("before,after,share,printed", PRINTED)
def test_the_pool_is_within_half_a_percent_of_what_was_printed(
    before: float, after: float, share: float, printed: float
) -> None:
    pool = pool_bytes(round(before * GIB), round(after * GIB), share)
    assert pool / GIB == pytest.approx(printed, rel=0.005)


def test_weights_above_the_share_leave_nothing() -> None:
    """SemiAnalysisAI/InferenceX 2128: 125.65 of 137.90 GiB are weights, and the engine asks for at least 0.9113."""
    before, after = round(137.90 * GIB), round(12.25 * GIB)
    assert pool_bytes(before, after, 0.88) == 0
    assert pool_bytes(before, after, 0.911) == 0
    assert pool_bytes(before, after, 0.9113) > 0


def test_the_share_counts_in_its_decimal_digits() -> None:
    assert pool_bytes(1000, 1000, 0.9) == 900
    assert pool_bytes(1000, 400, 0.9) == 300
