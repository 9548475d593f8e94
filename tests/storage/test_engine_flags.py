"""What an engine's flags mean stands in a file beside the engine's own, and is loaded as a part of its entry."""

from pathlib import Path

import pytest
import yaml

from service.domain.catalog import CatalogKind
from service.storage.catalog_files import CatalogFilesError, Problem, read_catalog_files
from tests.storage.catalog_folder import CatalogFolder

CATALOG = Path(__file__).parents[2] / "catalog"


@pytest.fixture
def folder(tmp_path: Path) -> CatalogFolder:
    """A catalog with one engine of the real one, its flags and every schema."""
    made = CatalogFolder(tmp_path / "catalog")
    for path in sorted(CATALOG.glob("schema/engine*.json")):
        made.text(f"schema/{path.name}", path.read_text("utf-8"))
    for name in ("engines/tensorrt-llm.yaml", "engines/flags/tensorrt-llm.yaml"):
        made.text(name, (CATALOG / name).read_text("utf-8"))
    return made


def problems(folder: CatalogFolder) -> list[Problem]:
    with pytest.raises(CatalogFilesError) as caught:
        read_catalog_files(folder.path)
    return list(caught.value.problems)


def test_they_are_a_part_of_the_engines_entry(folder: CatalogFolder) -> None:
    (entry,) = read_catalog_files(folder.path)

    assert (entry.kind, entry.id) == (CatalogKind.ENGINE, "tensorrt-llm")
    assert entry.facts["flags"] == yaml.load(
        (CATALOG / "engines/flags/tensorrt-llm.yaml").read_text("utf-8").replace("2026-11-30", "'2026-11-30'"),
        yaml.CSafeLoader,
    )


def test_an_engine_needs_none(folder: CatalogFolder) -> None:
    folder.remove("engines/flags/tensorrt-llm.yaml")

    assert "flags" not in read_catalog_files(folder.path)[0].facts


def test_flags_of_no_engine_are_a_problem(folder: CatalogFolder) -> None:
    folder.text("engines/flags/other.yaml", "evidence: x")

    assert [problem.file for problem in problems(folder)] == ["engines/flags/other.yaml"]


def test_flags_of_another_kind_are_a_problem(folder: CatalogFolder) -> None:
    folder.text("gpus/flags/tensorrt-llm.yaml", "evidence: x")

    assert [problem.file for problem in problems(folder)] == ["gpus/flags/tensorrt-llm.yaml"]


@pytest.mark.parametrize(
    "old, new, pointer",
    [
        ("reads: count", "reads: numbers", "/flags/sets/0/reads"),
        ("evidence:", "evidences:", "/flags"),
        ("--host,", "--port,", "/flags/ignored/value"),
    ],
)
def test_what_is_wrong_in_them_is_named_with_its_place(folder: CatalogFolder, old: str, new: str, pointer: str) -> None:
    text = (CATALOG / "engines/flags/tensorrt-llm.yaml").read_text("utf-8")
    folder.text("engines/flags/tensorrt-llm.yaml", text.replace(old, new, 1))

    assert pointer in {problem.pointer for problem in problems(folder)}


def test_a_flag_that_is_told_twice_is_a_problem(folder: CatalogFolder) -> None:
    text = (CATALOG / "engines/flags/tensorrt-llm.yaml").read_text("utf-8")
    folder.text("engines/flags/tensorrt-llm.yaml", text.replace("[--max_seq_len]", "[--tp_size]"))

    assert "The flag --tp_size is told twice." in problems(folder)[0].detail
