"""The card of this machine as NVIDIA's tool names it, here a script that says what it is told to."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvquote_probe.driver import auto_means, local_gpu

H100 = "NVIDIA H100 80GB HBM3, 570.86.15, 9.0, Disabled"
L4 = "NVIDIA L4, 570.86.15, 8.9, [N/A]"
TOLD = {"name": "NVIDIA H100 80GB HBM3", "driver": "570.86.15", "compute_capability": "9.0"}


@pytest.fixture
def says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """`says(line, …)`: the tool answers with these lines."""

    def install(*lines: str, status: int = 0, seconds: int = 0) -> None:
        script = tmp_path / "nvidia-smi"
        text = "\n".join(lines)
        script.write_text(f"#!/bin/sh\nsleep {seconds}\ncat <<'END'\n{text}\nEND\nexit {status}\n")
        script.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")

    return install


@pytest.mark.parametrize(
    "lines, count, told",
    [
        ([H100], None, {**TOLD, "count": 1}),
        ([H100] * 4, 2, {**TOLD, "count": 2}),
        ([H100] * 4, None, TOLD),
        ([L4], None, {"name": "NVIDIA L4", "driver": "570.86.15", "compute_capability": "8.9", "count": 1}),
        ([H100, L4], 1, None),
        ([H100.replace("Disabled", "Enabled")], None, None),
        (["NVIDIA H100"], None, None),
        ([""], None, None),
        (["/dev/nvidia0, 1, 9.0, Disabled"], None, None),
    ],
)
def test_what_the_tool_says_is_taken_where_it_is_of_one_kind_of_card(
    says: Callable[..., None], lines: list[str], count: int | None, told: dict[str, Any] | None
) -> None:
    says(*lines)

    assert local_gpu(count) == told


def test_a_tool_that_fails_tells_nothing(says: Callable[..., None]) -> None:
    says(H100, status=9)

    assert local_gpu(None) is None


def test_a_tool_that_hangs_is_not_waited_for(says: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvquote_probe.driver._SECONDS", 0.1)
    says(H100, seconds=5)

    assert local_gpu(None) is None


def test_without_the_tool_nothing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    assert local_gpu(None) is None


@pytest.mark.parametrize("node", ["nvidiactl", "kfd", "dxg"])
def test_what_auto_means_is_seen_without_torch(tmp_path: Path, node: str) -> None:
    assert "no GPU's driver" in auto_means(tmp_path)
    assert "is the CPU" in auto_means(tmp_path)
    (tmp_path / node).touch()
    assert auto_means(tmp_path) == "auto is the first GPU that torch sees"
