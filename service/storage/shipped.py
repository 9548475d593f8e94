"""What of the catalog's files stands in for a block that a catalog loaded by an older release does not have."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from service.storage.migrations import data_folder

MEASUREMENTS: Final = "measurements"


@cache
def shipped_limits() -> Mapping[str, Any]:
    """The block `measurements` of engine `none`: without it every stored row would wait, and nothing be learned.

    Reads a file, and imports what reads YAML, where a catalog of before is at hand and not otherwise.
    """
    from service.storage.catalog_yaml import read_yaml  # noqa: PLC0415  # see above

    block: Mapping[str, Any] = read_yaml(data_folder("catalog") / "engines" / "none.yaml")[MEASUREMENTS]
    return block
