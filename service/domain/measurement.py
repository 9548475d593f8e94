"""What a measurement is taken for: usable, not yet understood, or impossible (design, section 5).

A row is the plain document that the contract names, already read and in its normal form. Judging is a pure function of
the row, when and from whom it arrived, the catalog and who is trusted, so that it can be done again whenever one of
them changes.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum, unique
from typing import TYPE_CHECKING, Any, NamedTuple

from service.domain.errors import QuoteError
from service.domain.measurement_checks import CHECKS
from service.domain.measurement_limits import limits_of
from service.domain.measurement_physics import Bench, Doubt, impossible_memory
from service.domain.model import from_config
from service.domain.row_commands import command_of, spelled_out
from service.domain.scopes import NO_ENGINE
from service.domain.trust import NOBODY_DISTRUSTED

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from service.domain.gpu import Gpu
    from service.domain.measurement_limits import Limits
    from service.domain.model import Model
    from service.domain.precision import NumberFormat
    from service.domain.question import Catalog
    from service.domain.trust import Distrust

RULES = 7
"""Counts up when the checks change: what was stored before is then judged again."""

CPU = "cpu"
"""The device of a run without a GPU: kept, never learned from."""

_LONGEST_DETAIL = 200
_SEVERAL_KINDS = "setup.gpus lists cards of several kinds: what they hold or do together is no figure of one GPU."
_HOUR_SECONDS = 3600
_STANDINGS_KEPT = 1024
_Parts = tuple[object, object, object]
_WITH_MODEL = frozenset({"kv_allocation", "batch_ceiling", "decode_step", "prefill", "engine_capacity"})
# What all devices of a setup do; the other kinds are of one device, whatever stands beside it.
_TOGETHER = _WITH_MODEL | {"all_reduce"}
# What readers of configs may fail with on a document that nobody checked.
_UNREADABLE = (QuoteError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError)


@unique
class Verdict(StrEnum):
    """The verdicts of the wire contract."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    CONFLICT = "conflict"
    UNMATCHED = "unmatched"
    QUARANTINED = "quarantined"
    REJECTED = "rejected"


STORED = (Verdict.ACCEPTED, Verdict.UNMATCHED, Verdict.QUARANTINED)
"""Verdicts of rows that are kept; the others say why an upload left nothing new."""

KINDS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "device_memory": (("total_bytes",),),
    "kv_allocation": (("bytes_per_token",), ("tokens", "bytes")),
    "batch_ceiling": (("passed_sequences",),),
    "memory_bandwidth": (("bytes_per_second",),),
    "matmul_rate": (("flops_per_second", "dtype"),),
    "decode_step": (("seconds",),),
    "prefill": (("seconds",),),
    "all_reduce": (("bytes", "ranks", "seconds"),),
    "engine_capacity": (("kv_capacity_tokens",), ("kv_cache_bytes",)),
}
"""Every kind that is known, each with the sets of values of which one suffices."""


class Judgement(NamedTuple):
    """A verdict of STORED with its reason, and the catalog's ids of what the row names; None where it names nothing."""

    verdict: Verdict
    detail: str | None
    gpu_id: str | None
    model_id: str | None


_NO_LIMITS = Doubt("The catalog does not say what may be believed of measurements: kvquote-server catalog load.")


class Lookups:
    """What rows name, looked up in one catalog and remembered: an upload names the same few things a thousand times."""

    __slots__ = ("_catalog", "_kept", "_limits", "_made", "_standings", "distrust")

    def __init__(self, catalog: Catalog, distrust: Distrust = NOBODY_DISTRUSTED) -> None:
        """Begin with nothing looked up."""
        self.distrust = distrust
        self._catalog = catalog
        self._kept: dict[tuple[str, str], Any] = {}
        self._limits: Limits | Doubt | None = None
        self._made: dict[Hashable, Any] = {}
        self._standings: dict[tuple[str, int, int, int], tuple[_Parts, Standing]] = {}

    @property
    def revision(self) -> int:
        """The catalog's revision."""
        return self._catalog.revision

    def gpu(self, name: str) -> Gpu | Doubt:
        """The device, or why there is none."""
        found: Gpu | Doubt = self._keep("gpu", name, lambda: self._catalog.gpu(name))
        return found

    def model(self, setup: Mapping[str, Any]) -> Model | Doubt:
        """The model that a setup names or brings, or why there is none."""
        name, config = setup.get("model"), setup.get("config")
        found: Model | Doubt
        if name is not None:
            found = self._keep("model", name, lambda: self._catalog.model(name))
        elif config is not None:
            assume = setup.get("assume") == "decoder"
            found = self._keep(
                "config",
                f"{assume} {sorted(config.items(), key=str)}",
                lambda: from_config(config, assume_decoder=assume),
            )
        else:
            found = Doubt("setup names no model, which this kind is about.")
        return found

    def spelled_out(self, row: Mapping[str, Any]) -> Mapping[str, Any] | Doubt:
        """The row with what its command says as fields, or why the command says nothing."""
        if command_of(row) is None:
            return row
        key = repr((row.get("software"), row["setup"]))
        found: Mapping[str, Any] | Doubt = self._keep("command", key, lambda: spelled_out(row, self._catalog))
        return found if isinstance(found, Doubt) else {**row, "setup": found["setup"], "software": found["software"]}

    @property
    def limits(self) -> Limits | Doubt:
        """What may be believed, or why the catalog does not say."""
        if self._limits is None:
            self._limits = self._keep("engine", NO_ENGINE, lambda: limits_of(self._catalog) or _NO_LIMITS)
        return self._limits

    def standing(self, row: Mapping[str, Any]) -> Standing:
        """What the row says of where it was measured, found once for rows that share those parts.

        Told by the parts' identity, which costs nothing: they are kept, so that no other object takes their place.
        """
        parts = row.get("gpu"), row.get("software"), row.get("setup")
        key = (row["kind"], id(parts[0]), id(parts[1]), id(parts[2]))
        found = self._standings.get(key)
        if found is None:
            if len(self._standings) >= _STANDINGS_KEPT:
                self._standings.clear()
            found = self._standings[key] = (parts, _standing(row, self))
        return found[1]

    def format(self, name: str) -> NumberFormat | Doubt:
        """The number format, or why there is none."""
        found: NumberFormat | Doubt = self._keep("format", name, lambda: self._catalog.format(name))
        return found

    def remember(self, key: Hashable, make: Callable[[], Any]) -> Any:  # noqa: ANN401  # as it was made
        """What follows from things that were looked up here, made once."""
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = make()
        return found

    def _keep(self, kind: str, name: str, find: Callable[[], Any]) -> Any:  # noqa: ANN401  # as `find` finds
        key = (kind, name)
        found = self._kept.get(key)
        if found is None:
            try:
                found = find()
            except _UNREADABLE as error:
                detail = error.faults[0].detail if isinstance(error, QuoteError) and error.faults else ""
                found = Doubt(detail or f"The {kind} cannot be read.")
            self._kept[key] = found
        return found


def gpu_name(row: Mapping[str, Any]) -> str | None:
    """The name that a row's device is looked up by: a slice of a card is a device of its own."""
    gpu = row.get("gpu") or {}
    name, profile = gpu.get("name"), gpu.get("mig_profile")
    if name is None or profile is None or " mig " in name.casefold():
        return name
    return f"{name} MIG {profile}"


def model_name(row: Mapping[str, Any]) -> str | None:
    """The name that a row's model is looked up by."""
    name: str | None = (row.get("setup") or {}).get("model")
    return name


def measured_at(row: Mapping[str, Any]) -> datetime:
    """When it was measured, in UTC."""
    return datetime.fromisoformat(row["measured_at"])


def judge(row: Mapping[str, Any], received_at: datetime, lookups: Lookups, token_id: str = "") -> Judgement:
    """What a valid row that came with that token is taken for by the catalog of `lookups`."""
    standing = lookups.standing(row)
    distrusted = lookups.distrust.against(row.get("probe_id") or "", token_id, received_at)
    wrong = distrusted or _impossible(row, received_at, standing, lookups)
    if wrong is not None:
        return Judgement(Verdict.QUARANTINED, wrong, *standing.ids)
    if standing.doubt is not None:
        return Judgement(Verdict.UNMATCHED, standing.doubt, *standing.ids)
    note = None if standing.gpu else "A run on the CPU: kept, never learned from."
    return Judgement(Verdict.ACCEPTED, note, *standing.ids)


class Standing(NamedTuple):
    """Where a row was measured, whatever its values are: its device and its model, None where it is about none.

    `heard` has the fields that its command stands for, where it has one; `contradiction` is what its parts say against
    each other, and `doubt` what the catalog or this release would have to learn first.
    """

    gpu: Gpu | None
    model: Model | None
    heard: Mapping[str, Any] | None
    ids: tuple[str | None, str | None]
    contradiction: str | None
    doubt: str | None


def _standing(row: Mapping[str, Any], lookups: Lookups) -> Standing:
    heard = lookups.spelled_out(row) if row["kind"] in _WITH_MODEL else row
    gpu = _gpu(row, lookups)
    model: Model | Doubt | None
    if isinstance(heard, Doubt):
        model = Doubt(f"Its command: {heard.detail}"[:_LONGEST_DETAIL])
        said: Mapping[str, Any] = row
    else:
        said, model = heard, _model(heard, lookups)
    device = None if isinstance(gpu, Doubt) else gpu
    shape = None if isinstance(model, Doubt) else model
    return Standing(
        gpu=device,
        model=shape,
        heard=None if said is row else said,
        ids=((device.id if device else None), (shape.id if shape else None)),
        contradiction=None if device is None else _contradictory(said, device, lookups),
        doubt=_doubt(said, gpu, model, lookups),
    )


def _gpu(row: Mapping[str, Any], lookups: Lookups) -> Gpu | Doubt | None:
    """The device; None on a CPU."""
    name = gpu_name(row)
    if name is None:
        return Doubt("gpu is not told, so nothing can be learned about one.")
    return None if name.casefold() == CPU else lookups.gpu(name)


def _model(row: Mapping[str, Any], lookups: Lookups) -> Model | Doubt | None:
    """The model; None where the kind is about none and the row names none."""
    needed = row["kind"] in _WITH_MODEL or model_name(row) is not None
    return lookups.model(row.get("setup") or {}) if needed else None


def _doubt(
    row: Mapping[str, Any], gpu: Gpu | Doubt | None, model: Model | Doubt | None, lookups: Lookups
) -> str | None:
    """What the catalog, or this release, would have to learn first."""
    if row["kind"] not in KINDS:
        return f"There is no kind {row['kind']!r} here yet."
    cards = _listed(row, lookups)
    needed = model if row["kind"] in _WITH_MODEL else None
    for found in (lookups.limits, gpu, needed, *cards, *_formats(row, lookups)):
        if isinstance(found, Doubt):
            return found.detail
    return _SEVERAL_KINDS if _are_mixed(row, lookups) else None


def _listed(row: Mapping[str, Any], lookups: Lookups) -> list[Gpu | Doubt]:
    """The cards that the setup lists one by one."""
    return [lookups.gpu(name) for name in (row.get("setup") or {}).get("gpus") or ()]


def _are_mixed(row: Mapping[str, Any], lookups: Lookups) -> bool:
    """Whether cards of several kinds did it together; those that are not known here count as one kind."""
    if row["kind"] not in _TOGETHER:
        return False
    cards = _listed(row, lookups)
    return len({"" if isinstance(card, Doubt) else card.id for card in cards}) > 1


def _formats(row: Mapping[str, Any], lookups: Lookups) -> list[NumberFormat | Doubt]:
    setup = row.get("setup") or {}
    names = [setup.get("weight_dtype"), setup.get("kv_dtype")]
    return [lookups.format(name) for name in names if name not in {None, "auto"}]


def _impossible(row: Mapping[str, Any], received_at: datetime, standing: Standing, lookups: Lookups) -> str | None:
    """Why this cannot have been measured; None where nothing speaks against it."""
    limits = lookups.limits
    if isinstance(limits, Doubt):
        return None
    if (measured_at(row) - received_at).total_seconds() > limits.clock_ahead_seconds:
        hours = limits.clock_ahead_seconds / _HOUR_SECONDS
        return f"measured_at lies more than {hours:g} hours ahead of the time of arrival."
    gpu, model, heard = standing[:3]
    check = CHECKS.get(row["kind"])
    # What one card could hold or do says nothing of what cards of several kinds do together.
    unchecked = check is None or _are_mixed(row, lookups)
    if (
        gpu is None
        or standing.contradiction
        or check is None
        or unchecked
        or (model is None and row["kind"] in _WITH_MODEL)
    ):
        return standing.contradiction
    if heard is not None:
        row = {**row, "setup": heard["setup"], "software": heard["software"]}
    try:
        return check(Bench(gpu, model, row, lookups, limits))
    except QuoteError as error:
        # A layout that the model cannot have.
        return error.detail
    except ArithmeticError:
        return "What its device lists or its config says cannot be computed with."


def _contradictory(row: Mapping[str, Any], gpu: Gpu, lookups: Lookups) -> str | None:
    """What a row says of its device that it cannot have, or otherwise in its setup than in its device or software."""
    limits = lookups.limits
    wrong = None if isinstance(limits, Doubt) else impossible_memory(gpu, row, limits)
    wrong = wrong or _too_few_devices(row)
    if wrong is not None:
        return wrong
    setup, engine = row.get("setup") or {}, (row.get("software") or {}).get("engine")
    asked = setup.get("engine")
    if asked and engine and _spelled_alike(asked) != _spelled_alike(engine):
        return f"setup.engine {asked} contradicts software.engine {engine}."
    listed = [card for card in _listed(row, lookups) if not isinstance(card, Doubt)]
    # One that is not known may be this one by a name that the catalog has yet to learn.
    if listed and len(listed) == len(setup["gpus"]) and gpu.id not in {card.id for card in listed}:
        return f"setup.gpus does not list {gpu.id}, which gpu.name is."
    other = lookups.gpu(setup["gpu"]) if setup.get("gpu") else gpu
    if isinstance(other, Doubt) or other.id == gpu.id:
        return None
    return f"setup.gpu {setup['gpu']} is another device than gpu.name, {gpu.id}."


def _too_few_devices(row: Mapping[str, Any]) -> str | None:
    """Fewer devices than one replica of the setup is split over; more may stand beside it, idle or for others."""
    count, setup = (row.get("gpu") or {}).get("count"), row.get("setup") or {}
    # Each rank of an all-reduce may tell of its own card.
    if count is None or row["kind"] == "all_reduce":
        return None
    tensor, stages = setup.get("tensor_parallel"), setup.get("pipeline_parallel")
    if tensor is None and stages is None and setup.get("data_parallel") is None:
        tensor = setup.get("gpu_count")
    needed = max((tensor or 1) * (stages or 1), len(setup.get("gpus") or ()))
    if count >= needed:
        return None
    return f"gpu.count {count} contradicts setup: one replica is split over {needed}, counted over all its machines."


def _spelled_alike(engine: str) -> str:
    return engine.casefold().replace("_", "-")
