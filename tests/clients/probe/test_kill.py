"""A few of the points of `python -m tests.clients.probe.kill`, which tries fifty."""

from collections.abc import Iterator

import pytest

from tests.api.desk import fill
from tests.clients.probe.kill import Range, points, trying
from tests.databases import Databases

ROWS = 1100


@pytest.fixture(scope="module")
def place(sqlite: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Range]:
    with sqlite.migrated() as url:
        fill(url)
        with trying(url, tmp_path_factory.mktemp("kill"), ROWS) as place:
            yield place


@pytest.mark.parametrize("share", [0.3, 0.97], ids=["in a request", "in the last reply"])
def test_a_probe_killed_while_it_uploads_goes_on_when_it_is_started_again(place: Range, share: float) -> None:
    assert place.try_point("probe", share, 0.0).is_whole(ROWS)


def test_a_service_killed_while_it_takes_an_upload_has_each_row_once_after_its_restart(place: Range) -> None:
    assert place.try_point("service", 0.45, 0.02).is_whole(ROWS)


def test_points_are_drawn_from_the_seed_all_over_the_upload() -> None:
    drawn = list(points(50, 1))

    assert drawn == list(points(50, 1)) != list(points(50, 2))
    assert {victim for victim, _, _ in drawn} == {"probe", "service"}
    assert min(share for _, share, _ in drawn) < 0.1
    assert max(share for _, share, _ in drawn) > 0.9
