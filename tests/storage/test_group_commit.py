"""One writer for all that wait: every job once, each with its own result."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Thread

import pytest

from service.storage.group_commit import GroupCommit


def test_each_job_gets_its_own_result() -> None:
    doubled: GroupCommit[int, int] = GroupCommit(lambda jobs: [2 * job for job in jobs])

    with ThreadPoolExecutor(16) as threads:
        assert list(threads.map(doubled.run, range(200))) == [2 * job for job in range(200)]


def test_jobs_that_wait_are_written_together() -> None:
    groups: list[int] = []
    first_is_in, go_on = Event(), Event()

    def write(jobs: Sequence[int]) -> Sequence[int]:
        groups.append(len(jobs))
        first_is_in.set()
        go_on.wait(10)
        return jobs

    line: GroupCommit[int, int] = GroupCommit(write)
    threads = [Thread(target=line.run, args=(job,)) for job in range(9)]
    threads[0].start()
    first_is_in.wait(10)
    for thread in threads[1:]:
        thread.start()
    while len(line._line) < 8:
        first_is_in.wait(0.01)
    go_on.set()
    for thread in threads:
        thread.join()

    assert groups == [1, 8]


def test_no_more_than_so_many_go_together() -> None:
    line: GroupCommit[int, int] = GroupCommit(lambda jobs: [len(jobs)] * len(jobs), most=3)

    with ThreadPoolExecutor(16) as threads:
        assert max(threads.map(line.run, range(100))) <= 3


def test_an_error_reaches_those_it_was_written_with_and_nobody_else() -> None:
    def write(jobs: Sequence[int]) -> Sequence[int]:
        if 1 in jobs:
            raise RuntimeError("the disk is full")
        return jobs

    line: GroupCommit[int, int] = GroupCommit(write)

    with pytest.raises(RuntimeError, match="the disk is full"):
        line.run(1)
    assert line.run(2) == 2
