"""The devices of a question: cards of one kind and how many, or cards of several kinds one by one.

Devices that are alike have one budget and one pair of rates. Where they are not, each has its own, in the order in
which the engine numbers them, and only an engine that places a model device by device can be asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from service.domain.errors import Fault, NotSupported, ValidationError
from service.domain.ledger import Budget
from service.domain.shared_names import card_named
from service.domain.taught import seen_memory
from service.domain.units import portion, whole

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from service.domain.calibration import Calibration, Learned
    from service.domain.echo import Echo
    from service.domain.engines import Engine
    from service.domain.engines.plain import EngineDefaults
    from service.domain.gpu import Gpu
    from service.domain.precision import WeightFormat
    from service.domain.question import Catalog

_LISTS = ("gpus", "gpus_memory_bytes")
"""Names that list devices one by one."""


class Device(NamedTuple):
    """One of several devices that are not alike: its card, None where only memory was given, and rates a second."""

    gpu: Gpu | None
    budget: Budget
    bandwidth: float | None
    peak: float | None


class Devices(NamedTuple):
    """The devices of a question: what one may take, its rates, what to say of its memory, and what was learned of it.

    `apart` are devices that are not alike, one by one: then `budget` is that of the first, and rates are theirs alone.
    """

    budget: Budget
    bandwidth: float | None
    peak: float | None
    notes: tuple[str, ...]
    learned: tuple[Learned, ...]
    apart: tuple[Device, ...] = ()


def listed_count(asked: Mapping[str, Any]) -> int | None:
    """How many devices are listed; None where none are. Raises ValidationError where two lists differ in length."""
    sizes = {name: len(asked[name]) for name in _LISTS if asked.get(name)}
    if len(set(sizes.values())) > 1:
        detail = f"gpus_memory_bytes has {sizes['gpus_memory_bytes']} entries for {sizes['gpus']} gpus."
        raise ValidationError(Fault("/gpus_memory_bytes", detail))
    return next(iter(sizes.values()), None)


def listed_by(asked: Mapping[str, Any]) -> str:
    """The name that lists them."""
    return next(name for name in _LISTS if asked.get(name))


def cards_of(asked: Mapping[str, Any], engine: Engine, catalog: Catalog, notes: list[str]) -> tuple[Gpu, ...]:
    """The cards of `gpus`; raises QuoteError for one that is unknown, or that the engine cannot mix with others.

    To `notes` is added what is taken for granted of their names.
    """
    names = asked.get("gpus") or ()
    if names and "gpu" in asked:
        raise ValidationError(Fault("/gpus", "Give gpu for cards of one kind, or gpus for each of them, not both."))
    if "gpus_memory_bytes" in asked and "memory_bytes" in asked:
        detail = "Give memory_bytes for every GPU, or gpus_memory_bytes for each of them, not both."
        raise ValidationError(Fault("/gpus_memory_bytes", detail))
    each, memory = asked.get("gpus_memory_bytes"), asked.get("memory_bytes")
    sizes = each if each and len(each) == len(names) else [memory] * len(names)
    found = [
        card_named(name, catalog, f"/gpus/{at}", size) for at, (name, size) in enumerate(zip(names, sizes, strict=True))
    ]
    notes += dict.fromkeys(note for _, note in found if note)
    cards = tuple(card for card, _ in found)
    if not places_apart(engine) and len({card.id for card in cards}) > 1:
        raise NotSupported(_one_kind(cards, engine))
    return cards


def places_apart(engine: Engine) -> bool:
    """Whether an engine places a model device by device, each as full as it may be."""
    return "gpus_memory_bytes" in engine.takes


def _one_kind(cards: Sequence[Gpu], engine: Engine) -> Fault:
    """Ranks that share alike are as full as the one with the least memory allows."""
    least = min(cards, key=lambda card: card.visible_bytes or card.advertised_bytes)
    detail = (
        f"Engine {engine.name} gives every rank the same share, so that cards of two kinds are not quoted with it: the"
        f" one with the least memory fills first. Ask with gpu {least.id} and gpu_count {len(cards)}; only llama.cpp is"
        " quoted on cards of several kinds."
    )
    return Fault("/gpus", detail, (least.id,))


def devices_of(  # noqa: PLR0913  # all that memory and rates depend on
    echo: Echo,
    cards: Sequence[Gpu | None],
    engine: EngineDefaults,
    weights: WeightFormat,
    *,
    calibration: Calibration,
    warnings: list[str],
) -> Devices:
    """What the question leaves of each device; `cards` are those listed, or the one of all: None if none is named."""
    if _are_apart(echo.asked, cards):
        listed = cards if len(cards) > 1 else tuple(cards) * (listed_count(echo.asked) or 1)
        return _apart(echo, listed, engine, weights, calibration=calibration, warnings=warnings)
    gpu = cards[0]
    seen = None if gpu is None else seen_memory(calibration, gpu)
    budget, note = _alike(echo, gpu, engine, warnings, seen)
    learned = (seen,) if seen is not None and echo.taken["memory_bytes"] == "calibrated" else ()
    return Devices(budget, *_rates(echo, gpu, weights), (note,), learned)


def _are_apart(asked: Mapping[str, Any], cards: Sequence[Gpu | None]) -> bool:
    """Whether devices differ in kind, or each has a memory of its own."""
    return "gpus_memory_bytes" in asked or len({card and card.id for card in cards}) > 1


def _alike(
    echo: Echo, gpu: Gpu | None, engine: EngineDefaults, warnings: list[str], seen: Learned | None
) -> tuple[Budget, str]:
    """The budget of devices of one kind, and what to say of their memory."""
    basis = echo.take("memory_basis", engine.memory_basis)
    if gpu is not None and "memory_bytes" not in echo.asked:
        memory, note, source = _catalog_memory(gpu, basis, seen)
        echo.take("memory_bytes", memory, source)
        return _budget(echo, engine, memory), note
    memory = echo.asked["memory_bytes"]
    _warn_of_basis(echo, "memory_bytes", warnings)
    return _budget(echo, engine, memory), f"memory as asked, {memory:,} bytes a GPU"


def _apart(  # noqa: PLR0913  # as `devices_of`
    echo: Echo,
    cards: Sequence[Gpu | None],
    engine: EngineDefaults,
    weights: WeightFormat,
    *,
    calibration: Calibration,
    warnings: list[str],
) -> Devices:
    """Each device with its own budget and rates, in the order of the lists; a card is None where nobody named it."""
    basis = echo.take("memory_basis", engine.memory_basis)
    given = echo.asked.get("gpus_memory_bytes") or (
        [echo.asked["memory_bytes"]] if "memory_bytes" in echo.asked else []
    )
    if given:
        _warn_of_basis(echo, "memory_bytes" if "memory_bytes" in echo.asked else "gpus_memory_bytes", warnings)
        sizes = given if len(given) == len(cards) else given * len(cards)
        notes = [f"memory of device {at} as asked, {size:,} bytes" for at, size in enumerate(sizes)]
        learned: list[Learned] = []
    else:
        sizes, notes, learned = _listed_memory(echo, [card for card in cards if card], basis, calibration)
    devices = tuple(
        _device(echo, card, _budget(echo, engine, size), weights) for card, size in zip(cards, sizes, strict=True)
    )
    return Devices(devices[0].budget, None, None, tuple(notes), tuple(dict.fromkeys(learned)), devices)


def _listed_memory(
    echo: Echo, cards: Sequence[Gpu], basis: str, calibration: Calibration
) -> tuple[list[int], list[str], list[Learned]]:
    """Each card's memory by the catalog or by what probes saw, with a sentence on each, and what was learned of it."""
    seen = [seen_memory(calibration, card) for card in cards]
    found = [_catalog_memory(card, basis, each) for card, each in zip(cards, seen, strict=True)]
    sizes, sources = [size for size, _, _ in found], {source for _, _, source in found}
    echo.take("gpus_memory_bytes", sizes, sources.pop() if len(sources) == 1 else "derived")
    notes = [f"device {at}: {note}" for at, (_, note, _) in enumerate(found)]
    return sizes, notes, [each for each, row in zip(seen, found, strict=True) if each and row[2] == "calibrated"]


def _device(echo: Echo, card: Gpu | None, budget: Budget, weights: WeightFormat) -> Device:
    found = card.peak(weights.matmul_types) if card else None
    listed = (card.bandwidth_bytes_per_second if card else None, found[1] if found else None)
    names = ("bandwidth_bytes_per_second", "peak_flops_per_second")
    bandwidth, peak = (echo.asked.get(name, rate) for name, rate in zip(names, listed, strict=True))
    return Device(card, budget, bandwidth, peak)


def _warn_of_basis(echo: Echo, name: str, warnings: list[str]) -> None:
    if "memory_basis" in echo.asked:
        warnings.append(f"memory_basis has no effect beside {name}.")


def _budget(echo: Echo, engine: EngineDefaults, memory: int) -> Budget:
    """What the question leaves of a device's memory."""
    utilization = echo.take("memory_utilization", engine.memory_utilization)
    outside = 0 if utilization == 1 or engine.reserve_bytes is None else memory - portion(memory, utilization)
    others = echo.values["memory_used_by_others_bytes"]
    pool = echo.asked.get("kv_cache_bytes")
    if engine.reserve_bytes is None:
        return Budget(memory, 0, others, echo.asked.get("reserve_bytes", 0), pool)
    reserve = echo.take("reserve_bytes", engine.reserve_bytes if pool is None else 0)
    return Budget(memory, outside, others, reserve, pool)


def _catalog_memory(gpu: Gpu, basis: str, seen: Learned | None) -> tuple[int, str, str]:
    """A card's memory by the catalog or by what probes saw, how it comes about, and its source."""
    if basis == "visible" and seen is not None:
        memory = (gpu.visible_bytes or gpu.advertised_bytes) + whole(seen.estimate)
        return memory, f"visible memory of {gpu.name} as {seen.probes} probes saw it = {memory:,} bytes", "calibrated"
    if basis == "visible" and gpu.visible_bytes is None:
        detail = (
            f"The catalog does not know the visible memory of {gpu.id}: give memory_bytes, or memory_basis advertised."
        )
        raise NotSupported(Fault("/memory_basis", detail))
    visible = basis == "visible"
    memory = gpu.visible_bytes if visible and gpu.visible_bytes else gpu.advertised_bytes
    box = f"{memory / (1 << 30):.2f} GiB, {gpu.visible_source}" if visible else f"{memory / 1e9:g} GB"
    note = f"{basis} memory of {gpu.name}, {box} = {memory:,} bytes"
    return memory, note, gpu.visible_source if visible else "catalog"


def _rates(echo: Echo, gpu: Gpu | None, weights: WeightFormat) -> tuple[float | None, float | None]:
    """Bandwidth and peak of devices of one kind."""
    found = gpu.peak(weights.matmul_types) if gpu else None
    bandwidth = echo.take("bandwidth_bytes_per_second", gpu.bandwidth_bytes_per_second if gpu else None, "catalog")
    peak = echo.take("peak_flops_per_second", found[1] if found else None, "catalog")
    return bandwidth, peak
