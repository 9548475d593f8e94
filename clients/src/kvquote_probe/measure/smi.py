"""What NVIDIA's own tool says of a card, where it is installed: read only, and nothing depends on it.

The tool and not its library: it comes with every driver, and a broken one costs an empty answer instead of a crash.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

_TIMEOUT_SECONDS = 10
_MIB = 1 << 20
_SLICE = "MIG-"
_uuid = re.compile(r"\(UUID: ([\w-]+)\)").search
_FIELDS = (
    *("driver_version", "memory.total", "memory.reserved", "ecc.mode.current", "mig.mode.current"),
    *("clocks.sm", "clocks.mem", "clocks.max.sm", "clocks.max.mem", "power.limit", "temperature.gpu"),
)
# Drivers before 510 refuse a question with a name in it that they do not know.
_OLD_FIELDS = tuple(name for name in _FIELDS if name != "memory.reserved")
# One word of both spellings is known to a driver; asked together, neither would be answered.
_SLOWDOWNS = ("clocks_event_reasons.active", "clocks_throttle_reasons.active")
# Idle and settings that somebody made are how a card is found; power caps are how fast cards always run. The rest
# (hardware slowdown, thermal, power brake) says that the card is not what it was sold as (NVML's reason bits).
_SLOW_BITS = 0x8 | 0x20 | 0x40 | 0x80


class Card(NamedTuple):
    """A card as its driver's tool describes it; None where it does not say."""

    driver: str | None = None
    nvml_total_bytes: int | None = None
    reserved_bytes: int | None = None
    ecc: bool | None = None
    mig: bool | None = None
    clocks_mhz: dict[str, int] | None = None
    power_limit_watts: float | None = None
    temperature_celsius: int | None = None
    slowed: bool | None = None


def look(identity: str | None) -> Card:
    """The card with that UUID or bus id; an empty answer without the tool or without an identity."""
    sliced = identity is not None and identity.startswith(_SLICE)
    card = _parent(identity) if sliced and identity else identity
    if card is None:
        return Card()
    fields = _fields(card, _FIELDS) or _fields(card, _OLD_FIELDS)
    if sliced:
        # The tool tells of the whole card, whose memory is not the slice's.
        fields = {name: value for name, value in fields.items() if not name.startswith("memory.")}
    clocks = {name: _whole(fields.get(f"clocks.{name}")) for name in ("sm", "mem", "max.sm", "max.mem")}
    return Card(
        driver=_text(fields.get("driver_version")),
        nvml_total_bytes=_bytes(fields.get("memory.total")),
        reserved_bytes=_bytes(fields.get("memory.reserved")),
        ecc=_flag(fields.get("ecc.mode.current")),
        mig=_flag(fields.get("mig.mode.current")),
        clocks_mhz={name.replace(".", "_"): value for name, value in clocks.items() if value is not None} or None,
        power_limit_watts=_number(fields.get("power.limit")),
        temperature_celsius=_whole(fields.get("temperature.gpu")),
        slowed=_slowed(card),
    )


def held_by_others(identity: str | None, own: Sequence[int]) -> int | None:
    """Bytes that other processes hold there; None where the tool does not say.

    Only processes that exist here count: from within a container, numbers of the host may be our own.
    """
    if identity is None or identity.startswith(_SLICE):
        # Of a card in slices all processes are listed, whichever slice they are on.
        return None
    lines = _ask("--query-compute-apps=pid,used_memory", identity)
    if lines is None:
        return None
    rows = [[part.strip() for part in line.split(",")] for line in lines if line.count(",") == 1]
    return sum(_bytes(size) or 0 for process, size in rows if _is_other(process, own))


def _is_other(process: str, own: Sequence[int]) -> bool:
    return process.isdigit() and int(process) not in own and Path("/proc", process).exists()


def _parent(identity: str) -> str | None:
    """The card that a slice is of: the one above it in the tool's list."""
    parent = None
    for line in _run("-L") or ():
        found = _uuid(line)
        if found is None:
            continue
        if found[1] == identity:
            return parent
        parent = found[1] if found[1].startswith("GPU-") else parent
    return None


def _fields(identity: str, names: Sequence[str]) -> dict[str, str]:
    return dict(zip(names, _query(identity, names), strict=False))


def _slowed(identity: str) -> bool | None:
    for name in _SLOWDOWNS:
        found = _query(identity, (name,))
        if found and found[0].startswith("0x"):
            return bool(int(found[0], 16) & _SLOW_BITS)
    return None


def _query(identity: str, fields: Sequence[str]) -> list[str]:
    lines = _ask(f"--query-gpu={','.join(fields)}", identity)
    parts = [part.strip() for part in lines[0].split(",")] if lines else []
    return parts if len(parts) == len(fields) else []


def _ask(question: str, identity: str) -> list[str] | None:
    return _run(question, f"--id={identity}", "--format=csv,noheader,nounits")


def _run(*question: str) -> list[str] | None:
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return None
    command = [tool, *question]
    try:
        done = subprocess.run(  # noqa: S603  # found on the PATH, with a UUID from the driver
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_SECONDS,
            check=False,
            env={**os.environ, "LC_ALL": "C"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.splitlines() if done.returncode == 0 else None


def _text(given: str | None) -> str | None:
    return given if given and not given.startswith(("[", "N/A")) else None


def _number(given: str | None) -> float | None:
    try:
        return float(given) if given is not None else None
    except ValueError:
        return None


def _whole(given: str | None) -> int | None:
    number = _number(given)
    return None if number is None else round(number)


def _bytes(mebibytes: str | None) -> int | None:
    number = _number(mebibytes)
    return None if number is None else round(number * _MIB)


def _flag(given: str | None) -> bool | None:
    return {"enabled": True, "disabled": False}.get((given or "").lower())
