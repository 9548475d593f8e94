"""Cards as torch and nvidia-smi really name and list them: slices, unified memory, AMD, and old drivers."""

import os
import stat
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kvquote_probe.commands import MeasureError
from kvquote_probe.measure import allreduce, smi
from kvquote_probe.measure import device as devices
from kvquote_probe.measure.device import Cuda, has_no_kernel, is_out_of_memory, refuse_if_used, refuse_slow_attention

GIB = 1 << 30
UUID = "c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f"
# As `nvidia-smi -L` prints a card in slices, and one that is whole.
LISTED = f"""GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-11111111-d24f-1b5c-6b5c-000000000001)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77)
  MIG 3g.20gb     Device  0: (UUID: MIG-00000000-42e4-5de3-91c7-000000000000)
  MIG 1g.5gb      Device  1: (UUID: MIG-{UUID})
GPU 2: NVIDIA A100-SXM4-40GB (UUID: GPU-22222222-d33d-2b2c-524d-000000000002)"""
FACTS = "570.86.15, 40960, 626, Enabled, Enabled, 210, 1215, 1410, 1215, 400.00, 30"


def card(monkeypatch: pytest.MonkeyPatch, *, hip: str | None = None, **properties: Any) -> Cuda:  # noqa: ANN401
    """A card of which torch tells this."""
    told = {"name": "NVIDIA A100-SXM4-40GB", "major": 8, "minor": 0, "L2_cache_size": 40 << 20, "uuid": UUID}
    cuda = SimpleNamespace(
        is_available=lambda: True,
        device_count=lambda: 1,
        set_device=lambda _: None,
        get_device_properties=lambda _: SimpleNamespace(**{**told, **properties}),
        mem_get_info=lambda _: (4 * GIB, 20 * GIB),
        synchronize=lambda _: None,
    )
    sdp = SimpleNamespace(on=True)
    sdp.enable_math_sdp = lambda on: setattr(sdp, "on", on)
    torch = SimpleNamespace(
        cuda=cuda,
        version=SimpleNamespace(hip=hip, cuda=None if hip else "13.0"),
        __version__="2.13.0",
        backends=SimpleNamespace(cuda=sdp),
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    return Cuda("cuda:0")


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """nvidia-smi as it answers: by UUID of a card, never by that of a slice; what it was asked is written down."""
    listed = tmp_path / "listed"
    listed.write_text(LISTED)
    script = f"""#!/bin/sh
echo "$*" >> {tmp_path}/asked
case "$*" in
  -L) cat {listed};;
  *--id=MIG-*) echo "No devices were found"; exit 6;;
  *memory.reserved*)
    [ -e {tmp_path}/old ] && {{ echo 'Field "memory.reserved" is not a valid field to query.'; exit 2; }}
    echo "{FACTS}";;
  *query-gpu=driver_version*) echo "470.57.02, 40960, Enabled, Enabled, 210, 1215, 1410, 1215, 400.00, 30";;
  *clocks_event_reasons*) echo 0x0000000000000001;;
  *query-compute-apps*) echo "{os.getppid()}, 9000";;
esac
"""
    path = tmp_path / "nvidia-smi"
    path.write_text(script)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


@pytest.mark.parametrize("said", [UUID, f"GPU-{UUID}", f"MIG-{UUID}"])
@pytest.mark.parametrize("name, begin", [("NVIDIA A100-SXM4-40GB", "GPU"), ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "MIG")])
def test_a_card_is_known_by_its_uuid(monkeypatch: pytest.MonkeyPatch, said: str, name: str, begin: str) -> None:
    assert card(monkeypatch, uuid=said, name=name).identity() == f"{begin}-{UUID}"


def test_a_slice_has_the_driver_and_clocks_of_its_card_and_not_its_memory(
    tool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sliced = card(monkeypatch, name="NVIDIA A100-SXM4-40GB MIG 1g.5gb")
    told = sliced.card()

    assert (told.driver, told.mig, told.slowed) == ("570.86.15", True, False)
    assert told.clocks_mhz == {"sm": 210, "mem": 1215, "max_sm": 1410, "max_mem": 1215}
    assert (told.nvml_total_bytes, told.reserved_bytes) == (None, None)
    assert sliced.gpu()["mig_profile"] == "1g.5gb"
    assert "--id=GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77" in (tool / "asked").read_text()


def test_processes_on_other_slices_of_the_card_are_not_others(tool: Path) -> None:
    assert smi.held_by_others(f"MIG-{UUID}", ()) is None
    assert smi.held_by_others(f"GPU-{UUID}", ()) == 9000 << 20
    assert smi.look("MIG-of-no-card") == smi.Card()
    assert "--id=MIG" not in (tool / "asked").read_text()


def test_a_driver_that_does_not_know_a_name_tells_the_rest(tool: Path) -> None:
    (tool / "old").touch()
    told = smi.look(f"GPU-{UUID}")

    assert (told.driver, told.nvml_total_bytes, told.reserved_bytes) == ("470.57.02", 40960 << 20, None)
    assert told.temperature_celsius == 30


def test_what_a_tool_writes_in_another_charset_is_no_fault(tool: Path) -> None:
    (tool / "nvidia-smi").write_bytes(b"#!/bin/sh\nprintf '\\377\\n'\n")

    assert smi.look(f"GPU-{UUID}") == smi.Card()


@pytest.mark.parametrize(
    "arch, cache",
    [("gfx942:sramecc+:xnack-", 256 << 20), ("gfx950", 256 << 20), ("gfx90a", 8 << 20), ("gfx1100", 96 << 20)],
)
def test_a_card_of_amd_is_told_by_its_architecture_and_the_cache_behind_its_l2(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arch: str, cache: int
) -> None:
    version = tmp_path / "version"
    version.write_text("6.12.12\n")
    monkeypatch.setattr(devices, "_AMD_DRIVER", version)
    amd = card(monkeypatch, hip="6.4.43482", name="AMD Radeon Graphics", gcnArchName=arch, L2_cache_size=8 << 20)

    assert amd.cache_bytes() == cache
    assert (amd.kind, amd.identity()) == ("hip", None)
    assert amd.gpu()["compute_capability"] == arch.partition(":")[0]
    assert amd.gpu()["driver"] == "6.12.12"
    assert amd.software()["runtime"] == "rocm 6.4.43482"


def test_what_the_system_holds_of_a_memory_that_it_shares_is_not_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    whole = card(monkeypatch)
    shared = card(monkeypatch, name="NVIDIA GB10", is_integrated=1)

    with pytest.raises(MeasureError, match="Others hold 14"):
        refuse_if_used(whole, shared=False)
    assert refuse_if_used(shared, shared=False) == 0


def test_attention_on_a_card_is_fused_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_slow_attention(card(monkeypatch))

    assert sys.modules["torch"].backends.cuda.on is False
    assert has_no_kernel(RuntimeError("No available kernel. Aborting execution."))
    assert not has_no_kernel(RuntimeError("CUDA error: out of memory"))


def test_memory_that_ran_out_on_a_slice_is_known() -> None:
    hidden = (
        'NVML_SUCCESS == r INTERNAL ASSERT FAILED at "/pytorch/c10/cuda/CUDACachingAllocator.cpp":1124, please report'
        " a bug to PyTorch."
    )
    assert is_out_of_memory(RuntimeError(hidden))
    assert not is_out_of_memory(RuntimeError("NVML_SUCCESS == r INTERNAL ASSERT FAILED at NCCLUtils.cpp"))


@pytest.mark.parametrize("ranks, cards, said", [(4, 2, "4 ranks need as many cards"), (None, 1, "needs two of them")])
def test_a_sum_over_more_ranks_than_cards_is_not_begun(ranks: int | None, cards: int, said: str) -> None:
    bench = SimpleNamespace(on_cpu=False, nursery=SimpleNamespace(run=lambda *_: cards), arguments={})
    asked = SimpleNamespace(ranks=ranks, sizes=(8,), seconds=1.0)

    with pytest.raises(MeasureError, match=said):
        list(allreduce.measure(asked, lambda _: None, bench))  # type: ignore[arg-type]
