"""What is said of a device: the CPU's own figures, and a card's as torch and the driver's tool give them."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from kvquote_probe.commands import MeasureError
from kvquote_probe.measure import facts, smi
from kvquote_probe.measure.commands import ALL, COMMANDS
from kvquote_probe.measure.device import Cpu, is_out_of_memory, opened, refuse_if_used
from kvquote_probe.measure.nursery import Nursery
from kvquote_probe.measure.setting import Bench
from kvquote_probe.rows import make_row
from service.api.schemas.measurement_rows import read_row
from tests.clients.probe.measure.drills import GIB

PROBE = "0b5f2d0e-8f0c-4c6e-9d57-3f1c2b1d9a10"
CARD = "NVIDIA H100 80GB HBM3"
MakeTool = Callable[[dict[str, str]], None]


def test_the_cpu_is_told_with_its_memory_and_what_a_process_costs(bench: Bench) -> None:
    args = COMMANDS["device"]
    (reading,) = facts.measure(None, lambda _: None, bench)  # type: ignore[arg-type]  # has no options of its own

    values = reading.values
    assert 0 < values["context_bytes"] < values["free_bytes"] <= values["total_bytes"]
    assert values["memory_kind"] == "host"
    assert reading.gpu is not None
    assert reading.gpu["name"] == "cpu"
    assert read_row(make_row(reading, PROBE), 3).faults == []
    assert args.name == "device"


def test_a_limit_stands_for_a_smaller_memory() -> None:
    assert Cpu(limit_bytes=1_000_000).memory() == (1_000_000, 1_000_000)


@pytest.mark.parametrize("place", ["gpu", "cuda:x", "tpu:0", "cuda:999"])
def test_a_device_that_is_none_is_refused(place: str) -> None:
    with pytest.raises(MeasureError, match="no device"):
        opened({"device": place})


def test_a_limit_is_for_the_cpu_alone() -> None:
    with pytest.raises(MeasureError, match="--fraction"):
        opened({"device": "cuda:0", "limit_bytes": 10**9})


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("CUDA error: out of memory"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory"),
        type("OutOfMemoryError", (RuntimeError,), {})("HIP out of memory. Tried to allocate 2.00 GiB"),
    ],
)
def test_memory_that_ran_out_is_known_in_all_its_words(error: BaseException) -> None:
    assert is_out_of_memory(error)
    assert not is_out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeTool:
    """A driver's tool that knows these answers, by the question that it is asked."""

    def make(answers: dict[str, str]) -> None:
        cases = "\n".join(f'  *"{question}"*) echo "{answer}";;' for question, answer in answers.items())
        path = tmp_path / "nvidia-smi"
        path.write_text(f'#!/bin/sh\ncase "$*" in\n{cases}\n  *) exit 6;;\nesac\n', encoding="utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")

    return make


def test_a_card_is_told_as_its_tool_describes_it(tool: MakeTool) -> None:
    tool(
        {
            "query-gpu=driver_version": "550.54.15, 81559, 551, Enabled, Disabled, 1980, 2619, 1980, 2619, 700.00, 34",
            "clocks_event_reasons.active": "0x0000000000000004",
        }
    )

    card = smi.look("GPU-1")

    assert (card.driver, card.nvml_total_bytes, card.reserved_bytes) == ("550.54.15", 81559 << 20, 551 << 20)
    assert (card.ecc, card.mig, card.slowed, card.temperature_celsius) == (True, False, False, 34)
    assert card.clocks_mhz == {"sm": 1980, "mem": 2619, "max_sm": 1980, "max_mem": 2619}


def test_what_a_tool_does_not_say_is_left_open(tool: MakeTool) -> None:
    answer = "550.54.15, [N/A], [N/A], [N/A], [N/A], 1980, 2619, 1980, 2619, [Not Supported], 34"
    tool({"query-gpu=driver_version": answer})

    card = smi.look("GPU-1")

    assert (card.nvml_total_bytes, card.ecc, card.power_limit_watts, card.slowed) == (None, None, None, None)
    assert smi.look(None) == smi.Card()


@pytest.mark.parametrize(
    "bits, slowed", [("0x1", False), ("0x4", False), ("0x8", True), ("0x20", True), ("0x40", True)]
)
def test_heat_and_hardware_slow_a_card_down_and_idling_does_not(tool: MakeTool, bits: str, slowed: bool) -> None:
    # An older driver knows the older name alone.
    tool({"clocks_throttle_reasons.active": bits})

    assert smi.look("GPU-1").slowed is slowed


def test_processes_of_others_count_and_our_own_and_those_outside_do_not(tool: MakeTool) -> None:
    mine, other, outside = os.getpid(), os.getppid(), 4_194_303
    tool({"query-compute-apps": f"{mine}, 500\n{other}, 300\n{outside}, 9000"})

    assert smi.held_by_others("GPU-1", (mine,)) == 300 << 20


def test_a_card_that_others_use_is_refused_unless_it_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Cpu()
    monkeypatch.setattr(type(device), "kind", "cuda")
    monkeypatch.setattr(device, "held_bytes", lambda: 9 * GIB)

    with pytest.raises(MeasureError, match=r"7\.50 GiB.*--shared"):
        refuse_if_used(device, shared=False)
    assert refuse_if_used(device, shared=True) == 7.5 * GIB
    assert refuse_if_used(device, shared=False, own_bytes=8 * GIB) == 0


@pytest.mark.parametrize(
    "name, capability, expected",
    [
        (CARD, (9, 0), {"name": CARD, "compute_capability": "9.0", "mig_profile": None}),
        (f"{CARD} MIG 1g.10gb", (9, 0), {"name": f"{CARD} MIG 1g.10gb", "mig_profile": "1g.10gb"}),
        ("Tesla T4", (7, 5), {"name": "Tesla T4", "compute_capability": "7.5"}),
    ],
)
def test_a_card_is_told_as_torch_sees_it(
    nursery: Nursery, name: str, capability: tuple[int, int], expected: dict[str, str | None]
) -> None:
    told = nursery.run(
        "tests.clients.probe.measure.drills:card_told", {"name": name, "capability": capability}, lambda _: None
    )

    assert expected.items() <= told["gpu"].items()
    assert told["gpu"]["memory_bytes"] == 80 * GIB
    assert told["held_bytes"] == 8 * GIB
    assert told["counters"] == {"requested": 1, "allocated": 2, "reserved": 3}
    assert told["seconds"] == pytest.approx(0.25)
    assert told["cap"] == pytest.approx(0.5)


def test_all_runs_known_commands_within_the_whole_time() -> None:
    assert {share.name for share in ALL} <= set(COMMANDS)
    assert sum(share.share for share in ALL) == pytest.approx(1.0)
