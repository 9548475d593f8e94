"""What lists are asked for, as conditions of a query."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy import ColumnElement


def among(*columns: tuple[Any, Collection[str] | None]) -> list[ColumnElement[bool]]:
    """Each column holds one of its words; None asks for any, and no word at all for what nothing is."""
    return [column.in_(words) for column, words in columns if words is not None]
