"""The command `kvquote` against the real application: what it prints, and how it ends."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import requests

from kvquote_client import Client, InvalidInput
from kvquote_client.cli import main
from kvquote_client.cli.listing import LISTINGS
from tests.clients.test_client import CONFIG
from tests.golden_files import Golden

QUESTION = ("llama-2-7b", "a100-sxm-80gb", "--context", "4096")
COMMAND = ("vllm", "serve", "meta-llama/Llama-3.1-8B-Instruct", "--max-model-len", "8192")
LOGS = Path(__file__).parents[1] / "data" / "logs"


def log(name: str) -> str:
    """The path of a log as an engine wrote it."""
    return str(LOGS / f"{name}.log")


PRINTED = {
    "fit": ("fit", *QUESTION),
    "fit-why": ("fit", *QUESTION, "--why"),
    "fit-vllm": (
        *("fit", "llama-3.1-8b-instruct", "h100-sxm-80gb", "--context", "8192"),
        *("--engine", "vllm", "--engine-version", "0.19.0", "--tp", "2", "--enforce-eager"),
    ),
    "fit-does-not-fit": ("fit", "llama-2-70b", "a100-sxm-80gb", "--batch", "4"),
    "fit-by-memory": ("fit", "llama-2-7b", "--memory-bytes", "24GB", "--context", "1024"),
    "fit-cards": (
        *("fit", "qwen2.5-32b-instruct", "--gpus", "rtx-4090,rtx-3060-12gb", "--context", "8192"),
        *("--engine", "llama.cpp", "--engine-version", "b11549", "--weight-dtype", "q4_k_m", "--why"),
    ),
    "fit-devices": (
        *("fit", "llama-3.1-8b-instruct", "--gpus-memory-bytes", "24GB,12GB", "--context", "4096"),
        *("--engine", "llama.cpp", "--engine-version", "b11549", "--weight-dtype", "q8_0"),
    ),
    "fit-csv": ("fit", *QUESTION, "--csv"),
    "fit-command": ("fit", "--gpu", "h100-sxm-80gb", "--", *COMMAND, "--port", "8000"),
    "traffic-command": ("traffic", "--gpu", "h100-sxm-80gb", "--", *COMMAND),
    "logs": ("logs", log("vllm-0.20.2"), "--gpu", "h100-sxm-80gb"),
    "logs-without-gpu": ("logs", log("vllm-0.20.2")),
    "logs-of-ranks": ("logs", log("vllm-0.19.0-tp2-kubectl"), "--gpu", "h100-sxm-80gb", "--why"),
    "logs-refused": ("logs", log("vllm-0.11.0-refused-cache"), "--memory-bytes", "48GB"),
    "logs-csv": ("logs", log("sglang-0.4.6"), "--gpu", "h100-sxm-80gb", "--csv"),
    "traffic": ("traffic", *QUESTION, "--batch", "28", "--curve-batch-sizes", "1,28,64"),
    "traffic-without-rates": ("traffic", "llama-2-7b", "--memory-bytes", "80e9"),
    "compare-gpus": ("compare", "llama-2-7b", "a10,a100-sxm-80gb,t4,nope", "--context", "4096"),
    "compare-models": ("compare", "llama-2-7b,llama-2-70b", "a100-sxm-80gb", "--csv", "--context", "4096"),
    "gpus": ("gpus", "--vendor", "amd", "--min-memory-bytes", "190GB"),
    "gpu": ("gpus", "NVIDIA A10"),
    "models": ("models", "--family", "llama-2"),
    "instances": ("instances", "--gpu", "l4", "--limit", "3"),
    "dtypes": ("dtypes", "--kv", "--csv"),
    "engines": ("engines",),
}


class Ran(NamedTuple):
    """How a command ended, and what it wrote."""

    status: int
    out: str
    err: str


Run = Callable[..., Ran]


@pytest.fixture
def kvq(service_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """`kvq("fit", …)`: run the command here, against the real application."""
    monkeypatch.setenv("KVQUOTE_URL", service_url)

    def run(*words: str) -> Ran:
        capsys.readouterr()
        try:
            status = main(words)
        except SystemExit as ended:
            status = int(str(ended.code))
        out, err = capsys.readouterr()
        # The served application logs to the same place.
        own = [line for line in out.splitlines(keepends=True) if '"http_request"' not in line]
        return Ran(status, "".join(own), err)

    return run


REFUSED_IN_PART = {"logs-without-gpu": "--gpu: Give a gpu", "compare-gpus": "1 of 4 refused: llama-2-7b on nope: "}


@pytest.mark.parametrize("name", PRINTED)
def test_a_command_prints_what_it_printed(name: str, kvq: Run, golden: Golden) -> None:
    ran = kvq(*PRINTED[name])

    assert ran.status == (3 if name in REFUSED_IN_PART else 0)
    assert REFUSED_IN_PART.get(name, "") in ran.err
    assert ran.err.count("\n") == (name in REFUSED_IN_PART)
    golden(f"cli/{name}", ran.out.splitlines())


AS_DOCUMENTED = (
    "fit llama-3.1-8b h100-sxm-80gb --context 8192 --engine vllm",
    "fit llama-3.1-8b h100-sxm-80gb --context 8192 --engine vllm --require 32",
    "fit llama-3.1-8b-instruct l4 --context 8192 --require 32",
    "fit qwen2.5-32b-instruct --gpus rtx-4090,rtx-3060-12gb --engine llama.cpp --weight-dtype q4_k_m --context 8192",
    "fit --gpu h100-sxm-80gb -- vllm serve meta-llama/Llama-3.1-8B-Instruct --max-model-len 8192",
    "traffic llama-3.1-8b-instruct h100-sxm-80gb --context 8192 --curve-batch-sizes 1,8,64",
    "compare llama-3.1-8b-instruct l4,a10,h100-sxm-80gb --context 8192 --csv",
    "gpus --min-memory-bytes 80GB --no-mig",
    "models llama-2-7b --json",
    "calibrations --gpu h100-sxm-80gb --usable",
    "accuracy --engine vllm --csv",
)


@pytest.mark.parametrize("line", AS_DOCUMENTED)
def test_what_is_documented_works_as_it_stands(line: str, kvq: Run) -> None:
    ran = kvq(*line.split())

    assert (ran.status, ran.err) == (1 if " l4 " in line else 0, "")


def test_json_is_the_answer_as_it_came(kvq: Run, kvquote: Client) -> None:
    answer = kvquote.fit(model="llama-2-7b", gpu="a100-sxm-80gb", context_tokens=4096)

    assert json.loads(kvq("fit", *QUESTION, "--json").out) == answer.raw
    assert json.loads(kvq("--json", "fit", *QUESTION).out) == answer.raw


def test_a_list_as_json_has_its_rows(kvq: Run) -> None:
    rows = json.loads(kvq("gpus", "--limit", "3", "--json").out)["items"]

    assert [row["id"] for row in rows] == ["a10", "a100-pcie-40gb", "a100-pcie-40gb-mig-1g-10gb"]


def test_csv_has_the_rows_of_all_pages(kvq: Run, kvquote: Client) -> None:
    rows = list(csv.DictReader(io.StringIO(kvq("models", "--csv").out)))

    assert [row["id"] for row in rows] == [model.id for model in kvquote.models.list()]


@pytest.mark.parametrize("name", LISTINGS)
def test_csv_of_an_empty_list_has_the_header_of_the_services_own(name: str, kvq: Run, service_url: str) -> None:
    words = ("--gpu", "a10") if name in {"calibrations", "accuracy"} else ("--q", "nope")
    ran = kvq(name, *words, "--csv")
    own = requests.get(f"{service_url}/{name}", params={words[0][2:]: words[1], "format": "csv"}, timeout=10)

    assert (ran.status, ran.err) == (0, "")
    assert ran.out.count("\n") == 1
    assert ran.out.strip().split(",") == own.text.strip().split(",")


@pytest.mark.parametrize("name", ["models", "gpus", "instances", "dtypes", "engines"])
def test_csv_of_a_list_has_the_columns_that_it_has_without_rows(name: str, kvq: Run) -> None:
    header = kvq(name, "--q", "nope", "--csv").out

    assert kvq(name, "--limit", "1", "--csv").out.startswith(header)


@pytest.mark.parametrize("command", ["fit", "traffic"])
def test_csv_has_the_same_columns_whatever_the_answer(kvq: Run, command: str) -> None:
    fitting = kvq(command, *QUESTION, "--csv").out
    short = kvq(command, "llama-2-70b", "a100-sxm-80gb", "--csv").out
    nowhere = kvq(command, "llama-2-7b", "--memory-bytes", "80GB", "--csv").out
    columns = [set(text.partition("\n")[0].split(",")) for text in (fitting, short, nowhere)]

    assert columns[0] == columns[1] == columns[2]


def test_the_rows_of_a_curve_are_the_rows_of_its_csv(kvq: Run) -> None:
    rows = list(csv.DictReader(io.StringIO(kvq("traffic", *QUESTION, "--curve-batch-sizes", "1,8", "--csv").out)))

    assert [row["batch_size"] for row in rows] == ["1", "8"]


@pytest.mark.parametrize("required, status", [("28", 0), ("29", 1)])
def test_require_ends_with_1_where_fewer_can_run(kvq: Run, required: str, status: int) -> None:
    ran = kvq("fit", *QUESTION, "--require", required)

    assert ran.status == status
    assert "28" in ran.out


def test_require_counts_what_the_engine_runs_and_not_what_memory_holds(kvq: Run) -> None:
    words = ("fit", *QUESTION, "--engine", "vllm", "--max-sequences-limit", "4")

    assert kvq(*words, "--require", "4").status == 0
    assert kvq(*words, "--require", "5").status == 1


def test_require_is_not_met_by_what_does_not_start(kvq: Run) -> None:
    ran = kvq("fit", "llama-2-70b", "a100-sxm-80gb", "--require", "1")

    assert ran.status == 1
    assert "missing" in ran.out


@pytest.mark.parametrize("required, status", [("28", 0), ("29", 1)])
def test_compare_requires_of_one_of_them(kvq: Run, required: str, status: int) -> None:
    assert (
        kvq("compare", "llama-2-7b", "a10,a100-sxm-80gb", "--context", "4096", "--require", required).status == status
    )


def test_compare_ends_with_3_where_everything_is_refused(kvq: Run) -> None:
    ran = kvq("compare", "nope,never", "a10", "--json")

    assert ran.status == 3
    assert [item["answer"] for item in json.loads(ran.out)["items"]] == [None, None]
    assert json.loads(ran.out)["items"][0]["problem"]["status"] == 422


def test_a_pair_that_is_refused_is_a_row_that_says_why(kvq: Run) -> None:
    ran = kvq("compare", "llama-2-7b", "a10,nope", "--context", "4096", "--csv", "--require", "1")
    rows = list(csv.DictReader(io.StringIO(ran.out)))

    assert ran.status == 3
    assert [row["refused"] for row in rows] == ["", "The catalog has no GPU named 'nope'."]


def test_a_refusal_names_the_option_and_what_is_near(kvq: Run) -> None:
    ran = kvq("fit", *QUESTION, "--kv-dtype", "fp7")

    assert ran.status == 3
    assert ran.out == ""
    assert "  --kv-dtype: " in ran.err
    assert "fp8" in ran.err
    assert "request " in ran.err


def test_a_refusal_as_json_is_the_problem(kvq: Run) -> None:
    ran = kvq("gpus", "nope", "--json")

    assert ran.status == 3
    assert json.loads(ran.out)["status"] == 404


def test_what_stands_after_two_dashes_is_asked_as_the_engine_s_command(kvq: Run, asked: list[dict[str, Any]]) -> None:
    kvq("fit", "--gpu", "h100-sxm-80gb", "--", "vllm", "serve", "a/b", "--max-model-len", "8192", "--x", "a b")

    assert asked == [{"gpu": "h100-sxm-80gb", "command": "vllm serve a/b --max-model-len 8192 --x 'a b'"}]


def test_a_flag_of_the_command_that_nobody_knows_is_refused_with_the_nearest(kvq: Run) -> None:
    ran = kvq("fit", "--gpu", "h100-sxm-80gb", "--", *COMMAND, "--gpu-memory-utilisation", "0.9")

    assert ran.status == 3
    assert ran.out == ""
    assert "  --command: " in ran.err
    assert "--gpu-memory-utilization" in ran.err


def test_values_are_read_by_what_they_are(kvq: Run, asked: list[dict[str, Any]], tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps(CONFIG))
    kvq(
        *("fit", "--config", str(config), "--memory-bytes", "74.5GiB", "--reserve-bytes", "4_000_000_000"),
        *("--no-expert-parallel", "--enforce-eager", "--tensor-split", "1,0.5", "--memory-utilization", "0.9"),
        *("--parameters", "7e9", "--lengths", '{"prompt_tokens": {"p50": 1}}', "--gpu-count", "2"),
        *("--gpus", "rtx-4090, GeForce RTX 3060", "--gpus-memory-bytes", "24GB,12GiB"),
    )

    assert asked == [
        {
            "config": CONFIG,
            "gpu_count": 2,
            "gpus": ["rtx-4090", "GeForce RTX 3060"],
            "gpus_memory_bytes": [24_000_000_000, 12 << 30],
            "expert_parallel": False,
            "memory_utilization": 0.9,
            "enforce_eager": True,
            "tensor_split": [1, 0.5],
            "memory_bytes": 79_993_765_888,
            "reserve_bytes": 4_000_000_000,
            "parameters": 7_000_000_000,
            "lengths": {"prompt_tokens": {"p50": 1}},
        }
    ]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The questions that would have been sent."""
    questions: list[dict[str, Any]] = []

    def keep(_self: Client, **question: object) -> None:
        questions.append(question)
        raise InvalidInput("kept")

    monkeypatch.setattr(Client, "fit", keep)
    return questions


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("quote",),
        ("fit", "a", "b", "c"),
        ("fit", "a", "b", "--kv-dtyp", "x"),
        ("fit", "a", "b", "--context", "8k"),
        ("fit", "a", "b", "--context", "0.5"),
        ("fit", "a", "b", "--context", "inf"),
        ("fit", "a", "b", "--memory-bytes", "80 stones"),
        ("fit", "a", "b", "--memory-bytes", ""),
        ("fit", "a", "b", "--tensor-split", "1,x"),
        ("fit", "a", "--gpus", ","),
        ("fit", "a", "b", "--config", "/nowhere/config.json"),
        ("fit", "a", "b", "--config", "{broken"),
        ("fit", "a", "b", "--lengths", "{" * 100_000),
        ("fit", "a", "b", "--json", "--csv"),
        ("fit", "a", "b", "--model", "c"),
        ("fit", "a", "b", "--url", "somewhere"),
        ("fit", "a", "b", "--url", "http://me:secret@host"),
        ("fit", "a", "b", "--token", "a b"),
        ("fit", "a", "b", "--timeout", "0"),
        ("fit", "a", "b", "--timeout", "nan"),
        ("fit", "a", "b", "--retries", "-1"),
        ("fit", "a", "b", "--database", "x.db"),
        ("fit", "\ud800", "b"),
        ("fit", "a", "b", "--require", "0"),
        ("gpus", "--local", "--url", "http://a"),
        ("gpus", "a10", "--vendor", "nvidia"),
        ("gpus", "--limit", "0"),
        ("gpus", "--", "vllm"),
        ("gpus", ".."),
        ("logs",),
        ("logs", "/nowhere/engine.log"),
        ("logs", "/dev/zero"),
        ("logs", "-", "--", "vllm"),
        ("calibrations", "h100-sxm-80gb"),
    ],
    ids=lambda words: " ".join(words)[:60].encode("ascii", "replace").decode() or "nothing",
)
def test_what_makes_no_sense_ends_with_2_in_a_line_or_two(kvq: Run, words: tuple[str, ...]) -> None:
    ran = kvq(*words)

    assert ran.status == 2
    assert ran.out == ""
    assert ran.err.startswith("kvquote")
    assert len(ran.err.splitlines()) <= 2
    assert "secret" not in ran.err


def test_a_mistyped_option_is_answered_with_the_nearest(kvq: Run) -> None:
    assert "did you mean --kv-dtype?" in kvq("fit", "a", "b", "--kv-dtyp=fp8").err


def test_an_engines_command_without_dashes_before_it_is_told_where_it_stands(kvq: Run) -> None:
    told = kvq("fit", "--gpu", "l4", "vllm", "serve", "Qwen/Qwen3-8B", "--max-model-len", "4096")

    assert told.err.splitlines()[0].endswith("no 'Qwen/Qwen3-8B' here; an engine's own command stands behind --")
    assert "behind --" not in kvq("gpus", "a100", "l4").err


@pytest.mark.parametrize(
    "words",
    [("--help",), ("fit", "--help"), ("logs", "--help"), ("gpus", "--help"), ("accuracy", "--help"), ("--version",)],
    ids=" ".join,
)
def test_help_is_printed(kvq: Run, words: tuple[str, ...]) -> None:
    ran = kvq(*words)

    assert ran.status == 0
    assert "kvquote" in ran.out


def test_every_name_of_a_question_is_an_option(kvq: Run) -> None:
    from kvquote_client.question import TrafficQuestion

    shown = kvq("traffic", "--help").out

    assert [n for n in TrafficQuestion.__annotations__ if f"--{n.replace('_', '-')}" not in shown] == []


def test_a_service_that_is_not_there_ends_with_4_and_says_what_to_do(kvq: Run) -> None:
    ran = kvq("fit", *QUESTION, "--url", "http://127.0.0.1:1", "--retries", "0")

    assert ran.status == 4
    assert "Connection refused" in ran.err
    assert "--local" in ran.err
