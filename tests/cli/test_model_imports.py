"""`kvquote-server models import`: what is stored, how much of the files is read, and what is refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import pytest
from click.testing import CliRunner, Result

from service import cli
from service.storage.catalog import current_revision
from service.storage.database import make_engine, reading
from tests.api.desk import fill
from tests.api.test_model_imports import CONFIG, HELD, SHAPES
from tests.domain.files.written import gguf_file, header_of, safetensors_file

Run = Callable[..., Result]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG))
    return path


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    path = tmp_path / "model.safetensors"
    path.write_bytes(safetensors_file(SHAPES))
    return path


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, database_url: str, config: Path) -> Run:
    """Import the config with more arguments into a catalog that has number formats."""
    fill(database_url)
    monkeypatch.setenv("DATABASE_URL", database_url)
    asked = ["models", "import", str(config), "--hub-id", "owner/tiny-llama"]
    return lambda *arguments: CliRunner().invoke(cli.main, [*asked, *map(str, arguments)])


@pytest.fixture
def revision(database_url: str) -> Callable[[], int]:
    def read() -> int:
        engine = make_engine(database_url)
        with reading(engine) as connection:
            found = current_revision(connection)
        engine.dispose()
        return found

    return read


def dry(run: Run, *arguments: object) -> dict[str, Any]:
    result = run("--dry-run", *arguments)

    assert result.exit_code == 0, result.output
    facts: dict[str, Any] = json.loads(result.stdout)
    return facts


def test_a_model_is_stored_once(run: Run, weights: Path, revision: Callable[[], int]) -> None:
    assert run("--header", weights).stdout == "Model tiny-llama: catalog revision 2.\n"
    assert run("--header", weights).exit_code == 2
    assert run("--header", weights, "--replace").stdout == "Model tiny-llama: nothing changed.\n"
    assert run("--replace").stdout == "Model tiny-llama: catalog revision 3.\n"
    assert revision() == 3


def test_a_dry_run_stores_nothing(run: Run, weights: Path, revision: Callable[[], int]) -> None:
    assert dry(run, "--header", weights)["checkpoint"]["weight_bytes"] == HELD
    assert revision() == 1


def test_the_header_alone_is_enough(run: Run, weights: Path) -> None:
    weights.write_bytes(header_of(weights.read_bytes()))

    assert dry(run, "--header", weights)["checkpoint"]["weight_bytes"] == HELD


def test_the_headers_json_alone_is_enough(run: Run, weights: Path) -> None:
    weights.write_bytes(header_of(weights.read_bytes())[8:])

    assert dry(run, "--header", weights)["checkpoint"]["weight_bytes"] == HELD


def test_headers_of_several_files_are_added_up(run: Run, tmp_path: Path) -> None:
    names = list(SHAPES)
    for number, part in enumerate((names[:4], names[4:])):
        (tmp_path / f"{number}.safetensors").write_bytes(safetensors_file({name: SHAPES[name] for name in part}))

    facts = dry(run, "--header", tmp_path / "0.safetensors", "--header", tmp_path / "1.safetensors")

    assert facts["checkpoint"]["weight_bytes"] == HELD


def test_an_index_is_read(run: Run, tmp_path: Path) -> None:
    index = {"metadata": {"total_size": HELD}, "weight_map": dict.fromkeys(SHAPES, "model.safetensors")}
    (tmp_path / "index.json").write_text(json.dumps(index))

    assert dry(run, "--index", tmp_path / "index.json")["checkpoint"]["weight_bytes"] == HELD


def test_of_a_gguf_file_no_more_than_the_header_is_read(run: Run, tmp_path: Path) -> None:
    shapes = {name.replace("model.layers.0", "blk.0"): shape for name, shape in SHAPES.items() if len(shape) > 1}
    path = tmp_path / "model.gguf"
    path.write_bytes(gguf_file(tmp_path, shapes, gguf.GGMLQuantizationType.Q4_K)[:4000])

    assert dry(run, "--gguf", path)["checkpoint"]["dtype"] == "q4_k_m"


def test_a_header_that_lies_is_refused_with_its_file_and_place(run: Run, weights: Path) -> None:
    weights.write_bytes((2**63).to_bytes(8, "little") + b"{}")
    result = run("--header", weights)

    assert result.exit_code == 2
    assert "model.safetensors: The file claims a header of 9,223,372,036,854,775,808 bytes" in result.stderr


def test_a_config_that_is_no_json_is_refused(run: Run, config: Path) -> None:
    config.write_text("{")

    assert "config.json: It is no JSON" in run().stderr


def test_two_kinds_of_files_at_once_are_refused(run: Run, weights: Path) -> None:
    assert "not several" in run("--header", weights, "--gguf", weights).stderr


def test_a_name_that_another_model_has_is_refused(run: Run) -> None:
    result = run("--hub-id", "owner/Llama-2-7b-hf")

    assert result.exit_code == 2
    assert "--replace" in result.stderr
