"""Start-up logs: from a file or standard input to a row, whatever the log is."""

import io
from pathlib import Path
from types import SimpleNamespace

import pytest

from kvquote_probe.engine import logs
from kvquote_probe.engine.logs import read_log
from kvquote_probe.engine.site import EngineError
from kvquote_probe.engine.telling import Told
from kvquote_probe.readings import Reading

LOG = """engine=vllm
version=0.24.0
model=/home/ada/Qwen2.5-7B-Instruct
kv_dtype=bfloat16
gpu=NVIDIA H100 80GB HBM3
gpu_count=2
tensor_parallel=2
kv_capacity_tokens=1018240
kv_cache_bytes=58390080389
weight_bytes=15299532502
"""


@pytest.fixture(autouse=True)
def reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_PLACES", ("kvquote_probe._nowhere", "tests.clients.probe.engine.spoken"))


def reading_of(tmp_path: Path, text: str, given: Told | None = None) -> Reading:
    path = tmp_path / "engine.log"
    path.write_text(text)
    (found,) = read_log(str(path), given or Told())
    return found


def test_a_log_becomes_a_reading(tmp_path: Path) -> None:
    found = reading_of(tmp_path, LOG)

    assert found.kind == "engine_capacity"
    assert found.values == {
        "kv_capacity_tokens": 1_018_240,
        "kv_cache_bytes": 58_390_080_389,
        "weight_bytes": 15_299_532_502,
    }
    assert found.setup == {"model": "Qwen2.5-7B-Instruct", "kv_dtype": "bf16", "tensor_parallel": 2}
    assert found.gpu == {"name": "NVIDIA H100 80GB HBM3", "count": 2}
    assert found.software == {"engine": "vllm", "engine_version": "0.24.0"}


def test_what_a_person_says_goes_before_what_the_log_says(tmp_path: Path) -> None:
    found = reading_of(tmp_path, LOG, Told(gpu={"name": "H200"}, setup={"model": "qwen2.5-7b"}))

    assert found.gpu == {"name": "H200"}
    assert (found.setup or {})["model"] == "qwen2.5-7b"


def test_a_log_without_a_card_leaves_it_null(tmp_path: Path) -> None:
    assert reading_of(tmp_path, LOG.replace("gpu=", "board=")).gpu is None


BLOCKS = "engine=vllm\nversion={}\nblocks=66210\nblock_tokens=16\n"


def test_blocks_of_a_release_that_knew_one_kind_are_tokens(tmp_path: Path) -> None:
    assert reading_of(tmp_path, BLOCKS.format("0.5.4")).values["kv_capacity_tokens"] == 1_059_360


def test_blocks_of_a_release_that_may_mix_caches_are_not(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="--uniform-cache"):
        reading_of(tmp_path, BLOCKS.format("0.11.0"))

    uniform = Told(uniform=True)
    assert reading_of(tmp_path, BLOCKS.format("0.11.0"), uniform).values["kv_capacity_tokens"] == 1_059_360


def test_standard_input_is_read_whatever_its_bytes_are(monkeypatch: pytest.MonkeyPatch) -> None:
    given = io.BytesIO(b"\xff\xfe\x00 no text\n" + LOG.encode())
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=given))

    (found,) = read_log("-", Told())

    assert found.values["kv_capacity_tokens"] == 1_018_240


def test_a_line_without_an_end_is_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.clients.probe.engine import spoken

    seen: list[int] = []
    read = spoken.read
    monkeypatch.setattr(logs, "_reader", lambda: SimpleNamespace(ENGINES=(), read=lambda lines: noted(read(lines))))

    def noted(found: spoken.LogReading) -> spoken.LogReading:
        seen.append(found.longest)
        return found

    with pytest.raises(EngineError):
        reading_of(tmp_path, "x" * (3 << 20))

    assert seen == [1 << 20]


@pytest.mark.parametrize(
    "text, said",
    [
        ("", "No line of .* that is read: vllm, sglang"),
        ("engine=vllm\nweight_bytes=7\n", "does not say what the cache holds"),
        ("engine=vllm\nrefusal=cache_too_small\n", "did not start: cache_too_small, line 2"),
    ],
)
def test_a_log_that_tells_no_capacity_is_said(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(EngineError, match=said):
        reading_of(tmp_path, text)


def test_a_log_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="No such file"):
        read_log(str(tmp_path / "none.log"), Told())


def test_an_installation_that_reads_no_logs_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_PLACES", ("kvquote_probe._nowhere", "nowhere.at.all"))

    with pytest.raises(EngineError, match="install the wheel"):
        read_log("-", Told())


def test_a_reader_that_fails_inside_is_a_fault_to_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_name: str) -> None:
        raise ModuleNotFoundError("No module named 'elsewhere'", name="elsewhere")

    monkeypatch.setattr(logs, "import_module", broken)

    with pytest.raises(ModuleNotFoundError, match="elsewhere"):
        read_log("-", Told())
