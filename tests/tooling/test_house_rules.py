"""Rules of this repository that no linter knows."""

import ast
import sys
from pathlib import Path

import pytest

from tests.tooling.repository import ROOT, python_files

OURS = ("service", "migrations", "clients", "tests")
LONGEST_FILE_LINES = 400
# Put together here, so that this file does not find itself.
BANNED = (
    "NotImplemented" + "Error",
    "pragma: no " + "cover",
    "pytest." + "skip",
    "mark." + "skip",
    "x" + "fail(",
    "TO" + "DO",
)


def imported(path: Path) -> set[str]:
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    relative = {"." * node.level + (node.module or "") for node in nodes if isinstance(node, ast.ImportFrom)}
    return plain | relative


def named(paths: list[Path]) -> list[str]:
    return [str(path.relative_to(ROOT)) for path in paths]


def test_no_file_is_longer_than_a_reader_can_hold() -> None:
    files = python_files(*OURS)

    assert named([path for path in files if len(path.read_text().splitlines()) > LONGEST_FILE_LINES]) == []


def test_every_module_is_named_for_what_it_holds() -> None:
    assert (
        named([path for path in python_files(*OURS) if path.stem in {"utils", "helpers", "misc", "common_utils"}]) == []
    )


@pytest.mark.parametrize("banned", BANNED)
def test_nothing_is_left_out_or_left_for_later(banned: str) -> None:
    assert named([path for path in python_files(*OURS) if banned in path.read_text(encoding="utf-8")]) == []


def test_the_domain_imports_the_standard_library_and_itself() -> None:
    allowed = sys.stdlib_module_names
    imports = {name for path in python_files("service/domain") for name in imported(path)}

    assert imports
    outside = {name for name in imports if not name.startswith((".", "service.domain"))}
    assert sorted(name for name in outside if name.split(".")[0] not in allowed) == []


def test_the_reader_of_logs_can_be_carried_along_by_a_probe() -> None:
    imports = {name for path in python_files("service/domain/logs") for name in imported(path)}

    assert imports
    # One dot alone: what stands in the folder beside it goes along, what stands above does not.
    inside = {name for name in imports if name.startswith(".") and not name.startswith("..")}
    assert sorted(name for name in imports - inside if name.split(".")[0] not in sys.stdlib_module_names) == []


def test_a_migration_never_imports_the_service() -> None:
    imports = {name for path in python_files("migrations/versions") for name in imported(path)}

    assert imports
    assert [name for name in imports if name.split(".")[0] == "service"] == []
