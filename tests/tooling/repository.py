"""Where the repository's own files are, and how the tooling's tests read them."""

import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
LOCKS = ROOT / "service" / "deploy"


def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def python_files(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))
