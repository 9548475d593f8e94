"""What uploads, probes and the service's own state answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from kvquote_client.reading import Answer

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class RowFault(Answer):
    """What is wrong with a row, and where."""

    pointer: str
    detail: str


@dataclass(frozen=True)
class RowResult(Answer):
    """The verdict on one row of an upload; `id` is None where it could not be read."""

    essential: ClassVar[tuple[str, ...]] = ("verdict",)

    id: str | None
    verdict: str
    detail: str | None
    errors: tuple[RowFault, ...]


@dataclass(frozen=True)
class UploadResult(Answer):
    """The verdicts on an upload in the order it was sent, and how many of each."""

    essential: ClassVar[tuple[str, ...]] = ("items",)

    items: tuple[RowResult, ...]
    counts: Mapping[str, int]


@dataclass(frozen=True)
class MeasurementRow(Answer):
    """A stored measurement with its present verdict."""

    essential: ClassVar[tuple[str, ...]] = ("id", "verdict")

    id: str
    probe_id: str
    kind: str
    measured_at: str
    received_at: str
    clock_skew_seconds: float | None
    verdict: str
    detail: str | None
    gpu_id: str | None
    model_id: str | None
    gpu: Mapping[str, Any] | None
    software: Mapping[str, Any] | None
    setup: Mapping[str, Any] | None
    values: Mapping[str, Any]
    samples: tuple[float, ...] | None


@dataclass(frozen=True)
class ProbeRow(Answer):
    """Who reports, since when, and what became of it."""

    essential: ClassVar[tuple[str, ...]] = ("probe_id",)

    probe_id: str
    first_received_at: str
    last_received_at: str
    last_measured_at: str
    measurements: int
    accepted: int
    unmatched: int
    quarantined: int
    accepted_share: float | None
    distrusted: bool
    distrusted_since: str | None
    distrust_reason: str | None


@dataclass(frozen=True)
class Check(Answer):
    """One thing that readiness looks at."""

    name: str
    status: str
    detail: str | None


@dataclass(frozen=True)
class Readiness(Answer):
    """Whether the service would answer now: `status` is `ready`, or not, and `checks` say why."""

    essential: ClassVar[tuple[str, ...]] = ("status",)

    status: str
    checks: tuple[Check, ...]


@dataclass(frozen=True)
class ProblemKind(Answer):
    """What a kind of problem means, and the way out."""

    essential: ClassVar[tuple[str, ...]] = ("type",)

    type: str
    title: str
    status: int
    meaning: str
    way_out: str
