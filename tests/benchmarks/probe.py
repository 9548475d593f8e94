"""The probe's spool: what its size costs in memory, and what keeping every row until its answer costs in speed.

Memory is that of a whole `kvquote-probe upload` against a bare sink. Speed is taken on the real service, which stores
each row on the disk, against a plain `requests.Session` that posts bodies of 1,000 rows made beforehand.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from uuid import uuid4

import requests

from kvquote_client import Transport
from kvquote_probe.spool import BATCH_ROWS, Spool
from kvquote_probe.upload import End, Uploader, body_of
from service.storage.database import make_engine, writing
from service.storage.tokens import Scope, create_token
from tests.benchmarks import installed, servers
from tests.benchmarks.figures import Figure, mebibytes, ratio
from tests.benchmarks.loading import HOST, post
from tests.benchmarks.over_http import HELLO
from tests.benchmarks.workplace import Workplace

FEW = 1000
_PATIENCE_SECONDS = 60.0
_LONGEST_SECONDS = 300


def measure(place: Workplace) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="kvquote-bench-") as name:
        return [*_memory(place, Path(name)), *_speed(place, Path(name))]


def _memory(place: Workplace, folder: Path) -> list[Figure]:
    many = place.effort.rows
    place.say(f"probe: uploads of {FEW:,} and of {many:,} rows")
    with servers.bare("bare_sink", 1, HELLO) as sink:
        small, large = (_peak(_filled(folder, rows), sink.port) for rows in (FEW, many))
    return [
        mebibytes(f"probe: peak memory of uploading {FEW:,} rows", small),
        ratio(f"probe: peak memory of uploading {many:,} rows, to {FEW:,}", large, small, 1.2),
    ]


def _peak(folder: Path, port: int) -> int:
    command = [sys.executable, "-m", "tests.benchmarks.uploading", str(folder), f"http://{HOST}:{port}"]
    done = subprocess.run(
        command,
        cwd=installed.ROOT,
        env={**installed.environment(), "PYTHONPATH": str(installed.ROOT / "clients" / "src")},
        capture_output=True,
        text=True,
        check=True,
        timeout=_LONGEST_SECONDS,
    )
    return int(done.stdout.splitlines()[-1])


@dataclass(frozen=True, slots=True)
class Desk:
    """A service to upload to and a token that may."""

    url: str
    token: str


def _speed(place: Workplace, folder: Path) -> list[Figure]:
    rows = place.effort.rows // 20
    place.say(f"probe: {rows:,} rows to the service, from the spool and as bare bodies, in turn")
    with _desk(place.another_sqlite_url()) as desk:
        spooled, bare = [], []
        for _ in range(place.effort.rounds):
            spooled.append(_from_spool(_filled(folder, rows), desk))
            bare.append(_as_bodies(_filled(folder, rows), desk))
    return [
        Figure("probe: rows uploaded a second", rows / min(spooled), "/s"),
        # The rate has to be at least 0.8 of the bare one.
        ratio("probe: time of an upload, to that of its bare batches", min(spooled), min(bare), 1 / 0.8),
    ]


def _from_spool(folder: Path, desk: Desk) -> float:
    with Spool(folder) as spool, Transport(desk.url, desk.token, retries=0) as transport, spool.uploading():
        started = perf_counter()
        report = Uploader(spool, transport, lambda _line: None, _PATIENCE_SECONDS).run()
        took = perf_counter() - started
    if report.end is not End.DONE or report.set_aside:
        raise AssertionError(f"not all was taken: {report}")
    return took


def _as_bodies(folder: Path, desk: Desk) -> float:
    """The same batches, made before the clock starts."""
    with Spool(folder) as spool:
        kept = spool.batch(spool.counts().waiting, most_bytes=sys.maxsize)
        bodies = [body_of(kept[start : start + BATCH_ROWS]) for start in range(0, len(kept), BATCH_ROWS)]
    headers = {"Authorization": f"Bearer {desk.token}", "Content-Type": "application/json"}
    with requests.Session() as session:
        session.trust_env = False
        started = perf_counter()
        for body in bodies:
            session.post(f"{desk.url}/measurements", data=body, headers=headers, timeout=60).raise_for_status()
        return perf_counter() - started


@contextmanager
def _desk(url: str) -> Iterator[Desk]:
    """The service on a database and a token made there."""
    with ExitStack() as stack:
        engine = make_engine(url, timeout_seconds=5)
        stack.callback(engine.dispose)
        with writing(engine) as session:
            token = create_token(session, "bench", [Scope.MEASUREMENTS_WRITE], "bench", None)[1]
        first = post("/fit", b'{"model": "llama-2-7b", "gpu": "a100-sxm-80gb"}')
        server = stack.enter_context(servers.service(url, 1, first))
        yield Desk(f"http://{HOST}:{server.port}", token)


def _filled(folder: Path, rows: int) -> Path:
    """A spool with so many rows that wait."""
    place = folder / str(uuid4())
    with Spool(place) as spool:
        spool.add(_row(spool.probe_id, number) for number in range(rows))
    return place


def _row(probe_id: str, number: int) -> dict[str, object]:
    return {
        "id": str(uuid4()),
        "probe_id": probe_id,
        "kind": "decode_step",
        "measured_at": "2026-11-01T10:00:00.000Z",
        "gpu": {"name": "NVIDIA H100 80GB HBM3", "driver": "570.86.15", "compute_capability": "9.0", "count": 1},
        "software": {"probe": "0.1.0", "torch": "2.9.1", "runtime": "cuda 12.8"},
        "setup": {"model": "meta-llama/Llama-3.1-8B", "batch_size": 8, "context_tokens": 4096, "kv_dtype": "bf16"},
        "values": {"seconds": 0.01 + number * 1e-9, "layers_timed": 32, "graphs": True},
        "samples": [0.01 + number * 1e-9 + n * 1e-6 for n in range(20)],
    }
