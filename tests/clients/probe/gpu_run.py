"""Run the whole probe for several models and cache types, keep its rows, and print quoted beside measured.

    python -m tests.clients.probe.gpu_run                       # on the card of this machine, models of the catalog
    python -m tests.clients.probe.gpu_run --tiny --device cpu   # the same path in a minute, without a GPU

The service runs inside, on a fresh database with the catalog of catalog/. Rows go to tests/data/probe/<device>.json.
"""

import json
import logging
import sys
import tempfile
import threading
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from werkzeug.serving import make_server

from kvquote_probe.commands import MeasureError
from kvquote_probe.measure.commands import COMMANDS, MEASUREMENTS
from kvquote_probe.measure.setting import bench_for
from kvquote_probe.rows import make_row
from service.api.schemas.measurement_rows import read_row
from tests.clients.probe.measure.tiny import config_file
from tests.conftest import wired_app
from tests.databases import Databases, SqliteServer

DATA = Path(__file__).parents[2] / "data" / "probe"
MODELS = ("llama-2-7b", "llama-3.1-8b-instruct", "deepseek-v2-lite")
"""Multi-head, grouped-query and latent attention; each fits a card of 40 GB in 16 bits."""

TINY = ("multi-head", "grouped", "latent")
_NOBODY = "00000000-0000-4000-8000-000000000000"
_QUICK = "--samples 5 --warm-up 0 --seconds 5"
_SMALL = f"{_QUICK} --warm-cache --layers 1,2,3"

Row = dict[str, Any]


class Task(NamedTuple):
    """A command of the probe and its options."""

    command: str
    options: str


def main(words: Sequence[str] | None = None) -> int:
    args = _parser().parse_args(words)
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as folder, served() as url:
        rows = list(_rows(args, Path(folder), url))
    name = rows[0]["gpu"]["name"]
    out = args.out or DATA / f"{name.lower().replace(' ', '-')}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    print("\n".join(table(rows)))  # noqa: T201  # its result
    _say(f"{len(rows)} rows of {name} are in {out.name}")
    return 0


def _parser() -> ArgumentParser:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    parser.add_argument("--kv-dtypes", nargs="+", default=["auto", "fp8"])
    parser.add_argument("--context", type=int, default=4096)
    parser.add_argument("--fraction", type=float, default=0.9)
    parser.add_argument("--limit-bytes", type=int)
    parser.add_argument(
        "--tiny", action="store_true", help="models that are built within a second, for trying this out"
    )
    parser.add_argument("--out", type=Path)
    return parser


@contextmanager
def served() -> Iterator[str]:
    """The service on a port of its own, and its address."""
    with tempfile.TemporaryDirectory() as folder:
        databases = Databases(SqliteServer(Path(folder)))
        with databases.loaded() as url, wired_app(url, KVQUOTE_LOG_LEVEL="error") as app:
            server = make_server("127.0.0.1", 0, app, threaded=True)
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            try:
                yield f"http://127.0.0.1:{server.port}"
            finally:
                server.shutdown()
                thread.join()


def tasks(args: Namespace, folder: Path) -> Iterator[Task]:
    """What is measured, in the order of `all`; each model in each cache type where a cache type matters."""
    yield Task("device", "")
    yield Task("bandwidth", f"{_QUICK} --working-set-bytes 64000000" if args.tiny else "")
    yield Task("matmul", f"{_QUICK} --shapes 256x256x256,512x512x512" if args.tiny else "")
    for name in TINY if args.tiny else args.models:
        model = f"--config {config_file(folder, name)}" if args.tiny else f"--model {name}"
        for kv_dtype in args.kv_dtypes:
            kind = "" if kv_dtype == "auto" else f"--kv-dtype {kv_dtype}"
            yield Task("kv", f"{model} {kind} --context {args.context}")
            yield Task("ceiling", f"{model} {kind} --context {args.context}")
        yield Task("decode", f"{model} {_SMALL} --batch-sizes 1,4 --lengths 64,256" if args.tiny else model)
        yield Task("prefill", f"{model} {_SMALL} --prompts 1,2 --lengths 32,128" if args.tiny else model)


def _rows(args: Namespace, folder: Path, url: str) -> Iterator[Row]:
    shared = ["--device", args.device, "--fraction", str(args.fraction)]
    shared += ["--limit-bytes", str(args.limit_bytes)] if args.limit_bytes else []
    with bench_for(_asked("device", shared, url), _say) as bench:
        for task in tasks(args, folder):
            _say(f"{task.command} {task.options}")
            asked = _asked(task.command, [*shared, *task.options.split()], url)
            try:
                for reading in MEASUREMENTS[task.command][1].measure(asked, _say, bench):
                    yield _checked(make_row(reading, _NOBODY))
            except MeasureError as error:
                _say(f"{task.command}: {error}")


def _asked(command: str, words: Sequence[str], url: str) -> Namespace:
    parser = ArgumentParser(prog=command)
    COMMANDS[command].add_arguments(parser)
    return parser.parse_args(words, Namespace(url=url, token=None))


def _checked(row: Row) -> Row:
    """The row as a service takes it."""
    faults = read_row(row, 3).faults
    if faults:
        raise SystemExit(f"A service would refuse this row: {faults}")
    return row


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201  # progress


def table(rows: Sequence[Row]) -> list[str]:
    """Lines of a table of quoted against measured, as the README has them."""
    lines = ["| what | model | cache | quoted | measured | |", "|---|---|---|---|---|---|"]
    for row in rows:
        line = _LINES.get(row["kind"], lambda _: None)(row)
        if line is not None:
            model = (
                (row["setup"] or {}).get("model") or ((row["setup"] or {}).get("config") or {}).get("model_type") or ""
            )
            cache = (row["setup"] or {}).get("kv_dtype") or ""
            lines.append(f"| {line[0]} | {model} | {cache} | {' | '.join(line[1:])} |")
    return lines


def _kv_line(row: Row) -> tuple[str, str, str, str]:
    values = row["values"]
    quoted, found = values["quoted_bytes_per_token"], values["bytes_per_token"]
    return "bytes a token", f"{quoted:,.0f}", f"{found:,.1f}", f"{found / quoted - 1:+.3%}"


def _ceiling_line(row: Row) -> tuple[str, str, str, str]:
    values = row["values"]
    predicted, found = values["predicted_sequences"], values["passed_sequences"]
    difference = f"{found / predicted - 1:+.1%}" if predicted else ""
    return f"sequences, by {values['limit']}", f"{predicted:,}", f"{found:,}", difference


def _bandwidth_line(row: Row) -> tuple[str, str, str, str]:
    values = row["values"]
    return f"bandwidth, {values['access']}", "", f"{values['bytes_per_second'] / 1e9:,.0f} GB/s", values["kernel"]


def _matmul_line(row: Row) -> tuple[str, str, str, str]:
    values = row["values"]
    return f"products in {values['dtype']}", "", f"{values['flops_per_second'] / 1e12:,.2f} TFLOPS", ""


def _step_line(row: Row) -> tuple[str, str, str, str]:
    values, fit = row["values"], row["values"].get("fit")
    if fit is None:
        return f"{row['kind']}, {values['layer_kind']}", "", "timings scatter", ""
    split = f"{fit['layer_seconds'] * 1e6:,.1f} us a layer, {fit['layer_token_seconds'] * 1e9:,.3f} ns a token"
    residual = f"residual {fit['relative_residual']:.1%}, held out {values['held_out_error']:.1%}"
    return f"{row['kind']}, {values['layer_kind']}", "", split, residual


_LINES = {
    "kv_allocation": _kv_line,
    "batch_ceiling": _ceiling_line,
    "memory_bandwidth": _bandwidth_line,
    "matmul_rate": _matmul_line,
    "decode_step": _step_line,
    "prefill": _step_line,
}


if __name__ == "__main__":
    sys.exit(main())
