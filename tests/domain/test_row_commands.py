"""Rows that tell an engine's command line and no fields are taken for what the command says."""

from collections.abc import Mapping
from typing import Any

import pytest

from service.domain import observations
from service.domain.measurement import Lookups, Verdict, judge
from service.domain.observations import observe
from service.domain.row_commands import spelled_out, without_command
from tests.domain.commands.command_cases import catalog
from tests.domain.judging import NOW
from tests.fleet import GIB, MODEL, RELEASE, capacity_row

COMMAND = "vllm serve meta-llama/Llama-3.1-8B-Instruct --max-model-len 8192"


def commanded(command: str, beyond_bytes: float = 1.0 * GIB, **setup: object) -> dict[str, Any]:
    return {**capacity_row(1, beyond_bytes), "setup": {"command": command, **setup}}


def judged(row: dict[str, Any]) -> tuple[Verdict, str | None]:
    return judge(row, NOW, Lookups(catalog()))[:2]


def test_a_command_says_all_that_fields_say() -> None:
    by_fields, by_command = capacity_row(1, 1.0 * GIB), commanded(COMMAND)

    assert judge(by_command, NOW, Lookups(catalog())) == judge(by_fields, NOW, Lookups(catalog()))
    assert judge(by_command, NOW, Lookups(catalog())).model_id == MODEL
    assert observe(by_command, catalog()) == observe(by_fields, catalog())


def test_a_command_that_rows_share_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def counted(row: Mapping[str, Any], by: Any) -> Mapping[str, Any]:  # noqa: ANN401  # any catalog
        read.append(row["id"])
        return spelled_out(row, by)

    monkeypatch.setattr(observations, "spelled_out", counted)
    memo: observations.Memo = {}
    shared, other = commanded(COMMAND), commanded(f"{COMMAND} --max-num-seqs 128")

    found = [observe(row, catalog(), memo) for row in (shared, {**shared, "id": "another"}, other)]

    assert len(read) == 2
    assert found[0] == found[1] == observe(shared, catalog())


def test_fields_beside_a_command_go_with_it() -> None:
    told = observe(commanded("vllm serve x --max-model-len 8192", model=MODEL), catalog())

    assert told == observe(capacity_row(1, 1.0 * GIB), catalog())


def test_what_a_command_says_is_checked_like_fields() -> None:
    impossible = {
        **commanded(f"{COMMAND} --kv-cache-dtype fp8"),
        "values": {"kv_cache_bytes": 40 * GIB, "kv_capacity_tokens": 9},
    }

    assert judged(impossible)[0] is Verdict.QUARANTINED


@pytest.mark.parametrize("count, found", [(1, Verdict.QUARANTINED), (2, Verdict.ACCEPTED)])
def test_what_a_command_splits_over_is_held_against_the_count_of_devices(count: int, found: Verdict) -> None:
    row = commanded(f"{COMMAND} --tensor-parallel-size 2")
    row = {**row, "gpu": {**row["gpu"], "count": count}, "values": {"kv_cache_bytes": 40 * GIB}}

    assert judged(row)[0] is found


@pytest.mark.parametrize(
    "command, words",
    [
        (f"{COMMAND} --no-such-flag-at-all", "no-such-flag"),
        ("vllm serve nobody/Nothing-7B-at-all --max-model-len 8192", "Nothing"),
        ("python train.py", "Its command: "),
        ("vllm serve", "no model"),
        ("sglang serve --model-path meta-llama/Llama-3.1-8B-Instruct", "and engine is vllm"),
        ("vllm serve $MODEL", "$MODEL"),
        ("vllm serve x --" + 7000 * "y", "no flag"),
    ],
)
def test_what_is_not_understood_waits_with_the_reason(command: str, words: str) -> None:
    verdict, detail = judged(commanded(command))

    assert verdict is Verdict.UNMATCHED
    assert detail is not None
    assert detail.startswith("Its command: ")
    assert words in detail
    assert len(detail) <= 200
    assert observe(commanded(command), catalog()) is None


def test_a_command_without_a_release_is_accepted_and_not_learned_from() -> None:
    row = {**commanded(COMMAND), "software": {"engine": "vllm"}}

    assert judged(row)[0] is Verdict.ACCEPTED
    assert observe(row, catalog()) is None


def test_an_image_tells_the_release() -> None:
    flags = COMMAND.removeprefix("vllm serve ")
    row = {**commanded(f"docker run --gpus all vllm/vllm-openai:v{RELEASE} --model {flags}"), "software": {}}

    assert observe(row, catalog()) == observe(capacity_row(1, 1.0 * GIB), catalog())


def test_a_device_s_own_rates_do_not_hang_on_what_ran_beside_them() -> None:
    row = {**commanded("python train.py"), "kind": "memory_bandwidth", "values": {"bytes_per_second": 2.9e12}}

    assert judged(row)[0] is Verdict.ACCEPTED


def test_a_row_without_a_command_is_as_it_is() -> None:
    row = capacity_row(1, 1.0 * GIB)

    assert spelled_out(row, catalog()) is row


def test_a_command_that_must_go_leaves_what_it_says() -> None:
    row = without_command(commanded(f"{COMMAND} --host 10.0.0.7 -tp 2", memory_utilization=0.9), catalog())

    assert "command" not in row["setup"]
    assert row["setup"]["tensor_parallel"] == 2
    assert row["setup"]["memory_utilization"] == 0.9
    assert row["software"] == {"engine": "vllm", "engine_version": RELEASE}


def test_a_command_that_is_not_understood_leaves_nothing() -> None:
    row = commanded("python train.py", memory_utilization=0.9)

    assert without_command(row, catalog())["setup"] == {"memory_utilization": 0.9}
