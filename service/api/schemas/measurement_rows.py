"""A measurement as it is sent, read into its normal form: fixed keys, values by kind, and nothing that names a machine.

Written by hand over the fields and not as marshmallow schemas: a thousand rows come in one request, and an invalid one
must cost no more than a valid one.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from service.api import limits
from service.api.limits import Span
from service.api.schemas.fields import (
    AskedField,
    Choice,
    Flag,
    ListOf,
    MisreadError,
    Moment,
    Name,
    Properties,
    WholeNumber,
)
from service.api.schemas.measurement_fields import (
    AMOUNT,
    ANY_NUMBER,
    COUNT,
    MOST_SAMPLES,
    POSITIVE,
    RATE,
    SECONDS,
    WORD,
    Either,
    Group,
    KindName,
    Pair,
    PlainCommand,
    Samples,
    SetupConfig,
    Uuid,
    Version,
    each,
    nullable,
    step,
)
from service.api.schemas.question import TrafficQuestion
from service.domain.errors import Fault
from service.domain.measurement import KINDS
from service.domain.private_words import names_secret

_EXACT = limits.MAX_EXACT_INTEGER
_KEPT_ENTRIES, _KEPT_LEVELS = 64, 3
_names_machine = re.compile(
    r"(?:^|_)(?:host|hostname|fqdn|serial|uuid|path|file|folder|user|username|ip|mac|address)(?:_|$)"
).search

_fit = Group(
    {
        **dict.fromkeys(("fixed_seconds", "layer_seconds", "layer_sequence_seconds", "layer_token_seconds"), AMOUNT),
        "relative_residual": AMOUNT,
        "points": COUNT,
    }
)

VALUES: Mapping[str, Mapping[str, AskedField]] = {
    "device_memory": {
        "total_bytes": POSITIVE,
        **dict.fromkeys(("free_bytes", "context_bytes", "nvml_total_bytes"), COUNT),
        "memory_kind": WORD,
    },
    "kv_allocation": {"tokens": Pair(), "bytes": Pair(), "bytes_per_token": RATE},
    "batch_ceiling": {
        "passed_sequences": COUNT,
        "failed_sequences": POSITIVE,
        "limit": Choice(["allocation", "step"]),
    },
    "memory_bandwidth": {
        "bytes_per_second": RATE,
        "access": Choice(["read", "copy", "gather"]),
        "working_set_bytes": POSITIVE,
    },
    "matmul_rate": {"flops_per_second": RATE, "dtype": WORD, **dict.fromkeys(("m", "n", "k"), POSITIVE)},
    "decode_step": {"seconds": SECONDS, "layers_timed": POSITIVE, "graphs": Either(Flag(), COUNT), "fit": _fit},
    "prefill": {"seconds": SECONDS, "layers_timed": POSITIVE},
    "all_reduce": {"bytes": POSITIVE, "ranks": WholeNumber(Span(2, 2**20)), "seconds": SECONDS},
    "engine_capacity": {
        **dict.fromkeys(
            (
                *("kv_capacity_tokens", "kv_cache_bytes", "weight_bytes", "activation_bytes", "graph_bytes"),
                *("other_bytes", "blocks", "block_tokens"),
            ),
            COUNT,
        ),
        "max_concurrency": AMOUNT,
    },
}
"""The values of each kind that is known; others are kept as they are."""

GPU = Group(
    {
        "name": WORD,
        "memory_bytes": POSITIVE,
        "compute_capability": Version(),
        "driver": Version(),
        "mig_profile": WORD,
        "count": WholeNumber(limits.SPANS["gpu_count"]),
    }
)
SOFTWARE = Group(dict.fromkeys(("probe", "torch", "engine", "engine_version", "runtime"), Version()))


def _setup() -> Group:
    """The names of a question; its texts without paths, its config without the folder it came from."""
    fields = {name: field for name, field in TrafficQuestion().fields.items() if isinstance(field, AskedField)}
    texts = {name: WORD for name, field in fields.items() if type(field) is Name}
    lists = {
        name: ListOf(WORD) for name, field in fields.items() if type(field) is ListOf and type(field.entry) is Name
    }
    return Group({**fields, **texts, **lists, "command": PlainCommand(), "config": SetupConfig()})


SETUP = _setup()
_PARTS: Mapping[str, AskedField] = {
    "id": Uuid(),
    "probe_id": Uuid(),
    "kind": KindName(),
    "measured_at": Moment(),
    "gpu": GPU,
    "software": SOFTWARE,
    "setup": SETUP,
    "samples": Samples(),
}
# What rows of one upload mostly share, as objects and as texts.
_REPEATED = frozenset({"gpu", "software", "setup"})
_REPEATED_TEXTS = frozenset({"probe_id", "kind", "measured_at"})
_READ_APART = frozenset({"id", "values"})
_WAYS = {kind: tuple(frozenset(way) for way in ways) for kind, ways in KINDS.items()}
_REQUIRED = ("id", "probe_id", "kind", "measured_at", "values")


class ReadRow(NamedTuple):
    """A row's id, None where it cannot be read, and its content in normal form or what is wrong with it."""

    id: str | None
    content: dict[str, Any] | None
    faults: list[Fault]


class Seen(dict[str, dict[str, Any]]):
    """What parts were read as, by name: rows of one upload mostly come from the same few devices and programs."""

    def __init__(self) -> None:
        super().__init__({name: {} for name in _REPEATED | _REPEATED_TEXTS})


def read_row(given: object, most_faults: int, oldest: datetime | None = None, seen: Seen | None = None) -> ReadRow:
    """Read one row; stops at `most_faults` faults. Measurements from before `oldest` are refused.

    `seen` is shared by the rows of an upload.
    """
    if type(given) is not dict:
        return ReadRow(None, None, [Fault("", "A row must be a JSON object.")])
    content: dict[str, Any] = {}
    faults: list[Fault] = []
    # The id first, so that a refusal can name the row.
    if given.get("id") is not None:
        _read_part("id", given["id"], content, faults)
    _read_parts(given, content, faults, most_faults, Seen() if seen is None else seen)
    faults += [Fault(f"/{name}", f"{name} is required.") for name in _REQUIRED if given.get(name) is None]
    if len(faults) < most_faults and given.get("values") is not None:
        _read_values(given["values"], content, faults, most_faults)
    if not faults:
        faults += _too_old(content, oldest)
    return ReadRow(content.get("id"), None if faults else content, faults[:most_faults])


def _read_parts(
    given: Mapping[str, Any], content: dict[str, Any], faults: list[Fault], most_faults: int, seen: Seen
) -> None:
    for name, value in given.items():
        if value is None or name in _READ_APART or len(faults) >= most_faults:
            continue
        known = seen.get(name)
        if known is None or (type(value) is not str and name in _REPEATED_TEXTS):
            _read_part(name, value, content, faults)
            continue
        # Unlike equality, what Python shows of an object tells 1 from true and from 1.0; a text shows as a quoted one.
        key = value if name in _REPEATED_TEXTS else repr(value)
        found = known.get(key)
        if found is not None:
            content[name] = found
        elif _read_part(name, value, content, faults):
            known[key] = content[name]


def _read_part(name: str, value: object, content: dict[str, Any], faults: list[Fault]) -> bool:
    """Read a part by its field; whether it could be."""
    field = _PARTS.get(name)
    if field is None:
        shown = name[: limits.POINTER_CHARACTERS]
        faults.append(Fault(step(name), f"A row has no {shown!r}; nothing that names a machine is kept."))
        return False
    try:
        content[name] = field.read(value)
    except MisreadError as error:
        faults.append(_fault(f"/{name}{error.at}", error))
        return False
    return True


def _fault(pointer: str, error: MisreadError) -> Fault:
    hint = f" (did you mean {error.nearest[0]!r}?)" if error.nearest else ""
    return Fault(pointer, f"{pointer[1:]} {error.sentence}{hint}.", error.nearest)


def _read_values(given: object, content: dict[str, Any], faults: list[Fault], most_faults: int) -> None:
    if type(given) is not dict or len(given) > _KEPT_ENTRIES:
        faults.append(Fault("/values", f"values must be an object of at most {_KEPT_ENTRIES} names."))
        return
    kind = content.get("kind", "")
    known = VALUES.get(kind, {})
    values: dict[str, Any] = {}
    for name, value in given.items():
        if value is None:
            continue
        try:
            field = known.get(name)
            values[name] = field.read(value) if field is not None else _kept(name, value, 0)
        except MisreadError as error:
            faults.append(_fault(f"/values{step(name)}{error.at}", error))
            if len(faults) >= most_faults:
                return
    content["values"] = values
    if not faults:
        faults += _insufficient(kind, values)


def _insufficient(kind: str, values: Mapping[str, Any]) -> list[Fault]:
    """What the values lack of their kind, or contradict in it."""
    ways = _WAYS.get(kind, ())
    if ways and not any(way <= values.keys() for way in ways):
        needed = " or ".join(" and ".join(way) for way in KINDS[kind])
        return [Fault("/values", f"{kind} needs {needed}.")]
    if kind != "batch_ceiling":
        return []
    passed, failed = values.get("passed_sequences"), values.get("failed_sequences")
    if failed is not None and passed is not None and failed <= passed:
        return [Fault("/values/failed_sequences", "failed_sequences must be above passed_sequences.")]
    return []


def _kept(name: str, value: object, level: int) -> object:
    """A value that this release has no name for, as it came: numbers, flags, short texts, and lists and objects."""
    if not 0 < len(name) <= limits.POINTER_CHARACTERS or not name.isprintable():
        raise MisreadError("is not a name for a value: it is long or unreadable")
    if _names_machine(name.lower()) or names_secret(name):
        raise MisreadError("is not a name for a value: it names a machine or a secret")
    if value is None or type(value) is bool:
        return value
    if type(value) is str:
        return WORD.read(value)
    if type(value) is int and abs(value) <= _EXACT:
        return value
    if type(value) is float:
        return ANY_NUMBER.read(value)
    if type(value) in {list, dict} and level < _KEPT_LEVELS and len(value) <= MOST_SAMPLES:  # type: ignore[arg-type]
        return _kept_inside(value, level + 1)
    raise MisreadError("is no value that can be kept")


def _kept_inside(value: Any, level: int) -> object:  # noqa: ANN401  # a list or an object of JSON
    if isinstance(value, list):
        return each(value, lambda inner: _kept("entry", inner, level))
    return {name: _kept(name, inner, level) for name, inner in value.items()}


def _too_old(content: Mapping[str, Any], oldest: datetime | None) -> list[Fault]:
    if oldest is None or datetime.fromisoformat(content["measured_at"]) >= oldest:
        return []
    return [Fault("/measured_at", f"measured_at lies before {oldest:%Y-%m-%d}, beyond what is kept.")]


def oldest_kept(days: int, now: datetime | None = None) -> datetime:
    """The start of what is kept, so many days back."""
    return (now or datetime.now(UTC)) - timedelta(days=days)


def described_row() -> Properties:
    """JSON Schema of a row, for the OpenAPI document."""
    parts = {name: field.described() for name, field in _PARTS.items()}
    optional = {name: nullable(inner) for name, inner in parts.items() if name not in _REQUIRED}
    values = {"type": "object", "maxProperties": _KEPT_ENTRIES, "additionalProperties": True}
    return {
        "type": "object",
        "properties": {**{n: p for n, p in parts.items() if n in _REQUIRED}, "values": values, **optional},
        "required": list(_REQUIRED),
        "additionalProperties": False,
    }
