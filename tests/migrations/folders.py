"""Copies of the migrations that tests may add revisions to."""

import shutil
from pathlib import Path

from service.storage.migrations import data_folder


def copy_of_migrations(tmp_path: Path) -> Path:
    folder = tmp_path / "migrations"
    shutil.copytree(data_folder("migrations"), folder, ignore=shutil.ignore_patterns("__pycache__"))
    return folder
