"""`/calibrations` and `/accuracy`: what measurements taught, and how quotes fared beside them."""

import json
from collections.abc import Sequence
from typing import Any

from flask import Response
from sqlalchemy import Row

from service.api.list_filters import after, cut, folded_names, page_limit, row_number
from service.api.listed import in_pages, listed
from service.api.rest import Blueprint
from service.api.schemas.calibrations import (
    ACCURACY_COLUMNS,
    ACCURACY_PAGE,
    ACCURACY_QUERY,
    CALIBRATION_COLUMNS,
    CALIBRATIONS_PAGE,
    CALIBRATIONS_QUERY,
)
from service.api.schemas.closed import Asked
from service.api.services import catalog_at, services, snapshot
from service.api.tables import Table
from service.domain.calibration import Quantity
from service.domain.catalog import CatalogKind
from service.domain.taught import shown
from service.storage.calibrations import ValueFilter, find_values
from service.storage.database import reading
from service.storage.scores import GROUP_COLUMNS, GroupFilter, find_groups

calibrations = Blueprint(
    "calibrations", __name__, description="What measurements taught, and how quotes fared beside them."
)


@calibrations.route("/calibrations")
@in_pages(calibrations, CALIBRATIONS_PAGE)
@calibrations.takes_query(CALIBRATIONS_QUERY)
@calibrations.named("listCalibrations", summary="List what was learned")
def list_calibrations() -> Response:
    """On every rung, also those that quotes do not use and why; with `history`, what was known before."""
    return listed(CALIBRATIONS_QUERY.read_texts, _values_page)


@calibrations.route("/accuracy")
@in_pages(calibrations, ACCURACY_PAGE)
@calibrations.takes_query(ACCURACY_QUERY)
@calibrations.named("listAccuracy", summary="List how quotes fared")
def list_accuracy() -> Response:
    """Each measured ceiling or capacity beside what would have been quoted before it came, by group."""
    return listed(ACCURACY_QUERY.read_texts, _groups_page)


def _values_page(asked: Asked) -> Table:
    revision = catalog_at(asked.get("as_of")).calibration.revision
    wanted = ValueFilter(
        revision=revision,
        quantities=asked.get("quantity"),
        gpus=_gpus(asked.get("gpu")),
        engines=folded_names(asked.get("engine")),
        rungs=asked.get("rung"),
        usable=asked.get("usable"),
        history=asked.get("history", False),
        after=_after_value(asked),
    )
    with reading(services().engine) as connection:
        found = find_values(connection, wanted, page_limit(asked) + 1)
    page, cursor = cut(asked, found, lambda row: (row.quantity, row.key, str(row.revision)))
    beside = {"next_cursor": cursor, "calibration_revision": revision}
    return Table(CALIBRATION_COLUMNS, [_value(row) for row in page], beside)


def _groups_page(asked: Asked) -> Table:
    wanted = GroupFilter(
        families=asked.get("family"),
        gpus=_gpus(asked.get("gpu")),
        engines=folded_names(asked.get("engine")),
        versions=asked.get("engine_version"),
        after=after(asked, len(GROUP_COLUMNS)),
    )
    with reading(services().engine) as connection:
        found = find_groups(connection, wanted, page_limit(asked) + 1)
    page, cursor = cut(asked, found, lambda group: [getattr(group, name) for name in GROUP_COLUMNS])
    return Table(ACCURACY_COLUMNS, [_group(group) for group in page], {"next_cursor": cursor})


def _gpus(asked: Sequence[str] | None) -> list[str] | None:
    """Ids of the GPUs of those names; a name that nothing answers to stays one that nothing was learned of."""
    if asked is None:
        return None
    catalog = snapshot()
    return [entry_id for name in asked for entry_id in (*catalog.ids_of(CatalogKind.GPU, name), name)]


def _value(value: Row[Any]) -> dict[str, Any]:
    content = json.loads(value.content)
    scope = content["scope"]
    words = ("gpu", "architecture", "driver", "engine", "layout", "model_class", "dtype", "ranks", "batch")
    copied = (
        *("estimate", "low", "high", "measured", "measurements", "probes", "outliers", "seen"),
        *("error_before", "error_after", "refusal"),
    )
    return {
        "quantity": value.quantity,
        "unit": Quantity(value.quantity).unit,
        "rung": value.rung,
        **{name: scope.get(name) for name in words},
        "engine_version": scope.get("version"),
        **{name: content[name] for name in copied},
        "usable": value.usable,
        "newest_at": content["newest"].replace("+00:00", "Z"),
        "revision": value.revision,
        "known_from": shown(value.known_from),
        "known_until": None if value.known_until is None else shown(value.known_until),
    }


def _group(group: Row[Any]) -> dict[str, Any]:
    return {
        "family": group.family,
        "gpu": group.gpu,
        "engine": group.engine,
        "engine_version": group.version,
        "figure": group.figure,
        **json.loads(group.content),
        "newest_at": shown(group.newest_at),
    }


def _after_value(asked: Asked) -> tuple[str, str, int] | None:
    key = after(asked, 3)
    if key is None:
        return None
    quantity, name, revision = key
    return quantity, name, row_number(revision)
