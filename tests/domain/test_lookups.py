"""What rows name is looked up once, in one revision of the catalog, and is not kept without end."""

from typing import Any

import pytest

from service.domain import measurement
from service.domain.measurement import Lookups, judge
from tests.domain.judging import CATALOG, H100, NOW, TOTAL, judged, row


def test_lookups_are_of_the_revision_of_their_catalog() -> None:
    class Later:
        revision = 7

    later: Any = Later()

    assert (Lookups(CATALOG).revision, Lookups(later).revision) == (1, 7)


def test_of_a_long_upload_the_last_parts_are_kept_and_all_rows_are_judged_alike(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept = 4
    monkeypatch.setattr(measurement, "_STANDINGS_KEPT", kept)
    lookups = Lookups(CATALOG)
    rows = [
        row("device_memory", {"total_bytes": total}, gpu={"name": name, "driver": str(number)})
        for number in range(3 * kept)
        for name, total in ((H100, TOTAL), (H100, 2 * TOTAL), ("RTX 9090", TOTAL))
    ]
    found, sizes = [], []
    for one in rows:
        found.append(judge(one, NOW, lookups))
        sizes.append(len(lookups._standings))

    assert found == [judged(one) for one in rows]
    assert max(sizes) == kept
