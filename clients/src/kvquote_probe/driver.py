"""The card of this machine as NVIDIA's tool names it, for measurements that load no torch."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

from kvquote_probe.names import plain_text

_FIELDS = "name,driver_version,compute_cap,mig.mode.current"
_SECONDS = 10
_NODES = ("nvidiactl", "nvgpu", "nvhost-gpu", "dxg", "kfd")
"""What drivers leave in /dev: NVIDIA's, Jetson's (two), WSL's and AMD's."""


def auto_means(devices: Path = Path("/dev")) -> str:
    """What `--device auto` will be, as far as can be seen without torch, which takes seconds to load."""
    if any((devices / node).exists() for node in _NODES):
        return "auto is the first GPU that torch sees"
    return f"there is no GPU's driver here (none of {', '.join(_NODES)} in {devices}), so auto is the CPU"


def local_gpu(count: int | None) -> dict[str, Any] | None:
    """Name, driver and capability where all cards of this machine are alike and none is sliced; else None.

    `count` is how many of them are meant; one, where there is but one.
    """
    cards = _cards()
    if not cards or len(set(map(tuple, cards))) != 1 or cards[0][3].lower() == "enabled":
        return None
    name, driver, capability, _ = cards[0]
    found = {
        "name": plain_text(name),
        "driver": plain_text(driver),
        "compute_capability": plain_text(capability),
        "count": count or (1 if len(cards) == 1 else None),
    }
    return {key: value for key, value in found.items() if value is not None} if found["name"] else None


def _cards() -> list[list[str]]:
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    command = [tool, f"--query-gpu={_FIELDS}", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return []
    rows = [[part.strip() for part in line.split(",")] for line in done.stdout.splitlines()]
    wanted = _FIELDS.count(",") + 1
    return rows if done.returncode == 0 and all(len(row) == wanted for row in rows) else []
