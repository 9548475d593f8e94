"""From a question as it was asked to one with every default filled in, each with where it came from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from service.domain.calibration import NOTHING_LEARNED
from service.domain.commands import hear
from service.domain.devices import cards_of, devices_of, listed_by, listed_count
from service.domain.echo import Echo
from service.domain.engines.plain import ENGINES, PlainEngine
from service.domain.errors import Fault, NotSupported, QuoteError, UnknownArchitecture, ValidationError, nearest
from service.domain.model import Model, from_config
from service.domain.naming import NamedModel
from service.domain.parallel import ONE_GPU, Layout, check_layout
from service.domain.precision import paired
from service.domain.shared_names import card_named
from service.domain.stages import as_multiplied
from service.domain.stored import weights_for
from service.domain.taught import teach
from service.domain.type_warnings import warn_of_types
from service.domain.units import whole

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.domain.calibration import Calibration, Learned
    from service.domain.commands.asking import Heard
    from service.domain.devices import Device
    from service.domain.engines import Engine
    from service.domain.gpu import Gpu
    from service.domain.ledger import Budget
    from service.domain.precision import CacheFormat, NumberFormat, WeightFormat

NOT_BUILT = {
    "lengths": "Length distributions are not supported yet; ask with the longest context_tokens.",
}
"""Names of the contract without a meaning in this release: refused, never ignored."""

_QUOTED = ("none", "vllm", "sglang", "tensorrt-llm", "llama.cpp")

_DEVICES = frozenset({"gpu", "memory_bytes", "gpus", "gpus_memory_bytes"})
"""Names of which one must say what memory there is."""
_SIZES = frozenset({"tensor_parallel", "pipeline_parallel", "data_parallel"})
_OF_NO_ENGINE = frozenset({"as_of"})
"""Names that say which catalog is asked, and not what an engine is told: `catalog` is that one already."""


class Catalog(Protocol):
    """What a question is looked up in; a snapshot of one revision."""

    @property
    def revision(self) -> int:
        """The revision that every value of it belongs to."""

    @property
    def calibration(self) -> Calibration:
        """What measurements taught beside it."""

    def model(self, name: str) -> Model:
        """The model of that slug, hub id or alias; raises UnknownModel."""

    def named_model(self, name: str, pointer: str = "/model") -> NamedModel:
        """The model of a name that people deploy it by, with what the name says beside it; raises UnknownModel."""

    def gpu(self, name: str, pointer: str = "/gpu") -> Gpu:
        """The device of that slug or alias; raises UnknownGpu at the pointer."""

    def sized_gpus(self, name: str) -> tuple[Gpu, ...]:
        """The devices that share a name but for the size of memory behind it; none where no device is called so."""

    def format(self, name: str, pointer: str = "/weight_dtype") -> NumberFormat:
        """The number format of that name or alias; raises ValidationError at the pointer."""

    def engine(self, name: str) -> Engine:
        """The policy of an engine; raises NotSupported."""


class Scenario(NamedTuple):
    """All that memory arithmetic needs of a question; a lever is the same with one field changed.

    `weight_bytes` and `parameters` are None unless the question set them, `budgets` is empty unless devices differ.
    """

    model: Model
    weights: WeightFormat
    cache: CacheFormat
    layout: Layout
    context_tokens: int
    limit_tokens: int
    prefix_tokens: int
    budget: Budget
    weight_bytes: int | None
    parameters: int | None
    budgets: tuple[Budget, ...] = ()

    def budget_of(self, device: int) -> Budget:
        """The budget of a device by its number."""
        return self.budgets[device] if self.budgets else self.budget


@dataclass(slots=True)
class Question:
    """A question with every default filled in; rates are per device, None where nobody gave them.

    Where devices differ, `devices` has each of them, and `gpu` and the rates become those of the answer once an engine
    holds the question: the card that fills first, and the rates at which the devices work through the model together.
    """

    named: NamedModel
    scenario: Scenario
    echo: Echo
    gpu: Gpu | None
    engine: Engine
    version: str | None
    bandwidth: float | None
    peak: float | None
    assumptions: list[str]
    warnings: list[str]
    calibration: Calibration
    taught: list[Learned] = field(default_factory=list)
    """What of the calibration the answer uses."""
    heard: Heard | None = None
    cards: tuple[Gpu, ...] = ()
    """Every card by itself, where the question lists them."""
    devices: tuple[Device, ...] = ()

    def pointed(self, error: QuoteError) -> QuoteError:
        """A refusal that points at the command for what the command set."""
        return error if self.heard is None else self.heard.pointed(error)


def resolve(asked: Mapping[str, Any], catalog: Catalog, read: NamedModel | None = None) -> Question:
    """Fill in every default; raises QuoteError naming each field that cannot be.

    `read` is the model where the same config or name was read before, which then is not read again.
    """
    if "command" not in asked:
        return _resolved(asked, catalog, read)
    return resolve_heard(hear(asked, catalog), catalog, read)


def resolve_heard(heard: Heard, catalog: Catalog, read: NamedModel | None = None) -> Question:
    """As `resolve`, of a question whose command was read already."""
    try:
        question = _resolved(heard.asked, catalog, read, heard)
    except QuoteError as error:
        raise heard.pointed(error) from error
    question.assumptions += heard.notes
    question.warnings += heard.warnings
    return question


def _resolved(
    asked: Mapping[str, Any], catalog: Catalog, read: NamedModel | None, heard: Heard | None = None
) -> Question:
    asked = _spelt(asked)
    echo = Echo(asked, heard)
    engine = _engine(echo, catalog)
    _check_given(asked)
    named = read or _model(echo, catalog, heard)
    assumptions = [named.note] if named.note else []
    cards = cards_of(asked, engine, catalog, assumptions)
    model, gpu = named.model, cards[0] if cards else _gpu(asked, catalog, assumptions)
    assumptions += model.architecture.assumptions
    warnings = list(model.architecture.warnings)
    layout = _layout(echo, engine, assumptions)
    check_layout(layout, model.architecture, _counted_by(asked))
    defaults = engine.release_defaults(asked)
    weights, cache_name = _formats(echo, named, gpu, engine, catalog)
    cache = _cache_format(defaults.cache_meant(cache_name, model.architecture), catalog)
    _check_covers(weights, cache, model)
    context, limit, prefix = _lengths(echo, model)
    if model.context_tokens and limit > model.context_tokens:
        warnings.append(_longer(limit, model, engine, heard))
    calibration = catalog.calibration if echo.values["calibration"] == "auto" else NOTHING_LEARNED
    found = devices_of(echo, cards or (gpu,), defaults, weights, calibration=calibration, warnings=warnings)
    assumptions[:0] = found.notes
    weight_bytes, parameters = _overrides(echo, model)
    for card in dict.fromkeys(cards) or (gpu,):
        warn_of_types(card, weights, cache, model, warnings)
    scenario = Scenario(
        *(model, weights, cache, layout, context, limit, prefix, found.budget, weight_bytes, parameters),
        budgets=tuple(device.budget for device in found.apart),
    )
    question = Question(
        *(named, scenario, echo, gpu, engine, defaults.version, found.bandwidth, found.peak, assumptions, warnings),
        calibration=calibration,
        taught=list(found.learned),
        heard=heard,
        cards=cards,
        devices=found.apart,
    )
    as_multiplied(question)
    return teach(question) if calibration.values else question


def _spelt(asked: Mapping[str, Any]) -> Mapping[str, Any]:
    """The question with methods of drafting as the catalog writes them: engines write EAGLE and NEXTN too."""
    method = asked.get("speculative_method")
    return asked if method is None else {**asked, "speculative_method": method.casefold()}


def _engine(echo: Echo, catalog: Catalog) -> Engine:
    name = echo.values["engine"]
    if name not in ENGINES:
        raise ValidationError(Fault("/engine", f"No engine is called {name!r}.", nearest(name, ENGINES)))
    if name not in _QUOTED:
        detail = f"Engine {name} cannot be quoted yet; these can: {', '.join(_QUOTED)}."
        raise NotSupported(Fault("/engine", detail, _QUOTED))
    engine = catalog.engine(name)
    if not engine.takes.issuperset(echo.asked):
        _refuse_strange(echo.asked, engine)
    return engine


def _refuse_strange(asked: Mapping[str, Any], engine: Engine) -> None:
    """Raise NotSupported for every name that the engine does not have."""
    strange = [n for n in asked if n not in engine.takes and n not in _OF_NO_ENGINE]
    if strange:
        raise NotSupported(*(Fault(f"/{n}", NOT_BUILT.get(n, f"Engine {engine.name} has no {n}.")) for n in strange))


def _check_given(asked: Mapping[str, Any]) -> None:
    """Everything that is missing, at once, and a drafter that guesses nothing, which no engine starts with."""
    faults = []
    if "model" not in asked and "config" not in asked:
        faults.append(Fault("/model", "Give a model, or a config to quote one that the catalog does not hold."))
    if not asked.keys() & _DEVICES:
        faults.append(Fault("/gpu", "Give a gpu, or memory_bytes to quote one that the catalog does not hold."))
    if "speculative_method" in asked and asked.get("speculative_tokens") == 0:
        detail = (
            "A step that guesses 0 tokens does not draft: give how many it guesses, or leave speculative_method out."
        )
        faults.append(Fault("/speculative_tokens", detail))
    if faults:
        raise ValidationError(*faults)


def _model(echo: Echo, catalog: Catalog, heard: Heard | None) -> NamedModel:
    name, config = echo.asked.get("model"), echo.asked.get("config")
    if name is not None and config is not None:
        raise ValidationError(Fault("/config", "Give model or config, not both."))
    known = heard.named if heard is not None else None
    if config is not None:
        return NamedModel(_with_cache(known.model if known else _inline(echo, config), "/config"))
    assert name is not None  # noqa: S101  # checked before
    if "assume" in echo.asked:
        raise ValidationError(Fault("/assume", "assume goes with config; a model of the catalog has its own reader."))
    try:
        named = known or catalog.named_model(name)
    except UnknownArchitecture as error:
        detail = f"The catalog holds {name}, but no reader knows its architecture yet. {error.detail}"
        raise UnknownArchitecture(Fault("/model", detail)) from error
    _with_cache(named.model, "/model")
    return named


def _inline(echo: Echo, config: Mapping[str, Any]) -> Model:
    return from_config(config, assume_decoder=echo.asked.get("assume") == "decoder")


def _with_cache(model: Model, pointer: str) -> Model:
    if not model.architecture.caches:
        raise NotSupported(Fault(pointer, f"{model.name} keeps no cache, so there is nothing that sequences fill."))
    return model


def _gpu(asked: Mapping[str, Any], catalog: Catalog, notes: list[str]) -> Gpu | None:
    name = asked.get("gpu")
    if name is None:
        return None
    card, note = card_named(name, catalog, memory_bytes=asked.get("memory_bytes"))
    notes += filter(None, [note])
    return card


def _layout(echo: Echo, engine: Engine, assumptions: list[str]) -> Layout:
    asked, values = echo.asked, echo.values
    listed = listed_count(asked)
    count = asked.get("gpu_count", listed)
    if listed not in {None, count}:
        raise ValidationError(Fault("/gpu_count", f"gpu_count is {count}, and {listed_by(asked)} lists {listed}."))
    if _SIZES.isdisjoint(asked):
        # An engine without tensor parallelism spreads whole layers over its devices.
        alone = "tensor_parallel" if "tensor_parallel" in engine.takes else "pipeline_parallel"
        if count is not None and count > 1:
            said = f"{count} gpus are" if listed else f"gpu_count {count} is"
            assumptions.append(f"{said} taken as {alone} {count}")
        devices = len(asked.get("tensor_split") or ()) if count is None else count
        if devices:
            echo.take(alone, devices, "derived")
    tensor, pipeline, data = values["tensor_parallel"], values["pipeline_parallel"], values["data_parallel"]
    expert = values["expert_parallel"]
    product = tensor * pipeline * data
    echo.take("gpu_count", product, "derived")
    if count not in {None, product}:
        name = "gpu_count" if "gpu_count" in asked else listed_by(asked)
        said = f"gpu_count {count} is" if name == "gpu_count" else f"The {count} entries of {name} are"
        detail = f"{said} not tensor x pipeline x data parallel = {tensor} x {pipeline} x {data} = {product}."
        raise ValidationError(Fault(f"/{name}", detail))
    return ONE_GPU if product == 1 and not expert else Layout(tensor, pipeline, data, expert)


def _counted_by(asked: Mapping[str, Any]) -> str | None:
    """The name that says over how many devices to spread, where no size of a layout does."""
    names = ("gpu_count", "gpus", "gpus_memory_bytes", "tensor_split")
    return next((n for n in names if n in asked), None) if _SIZES.isdisjoint(asked) else None


def _formats(
    echo: Echo, named: NamedModel, gpu: Gpu | None, engine: Engine, catalog: Catalog
) -> tuple[WeightFormat, str]:
    """The format of the weights, and the cache's by name."""
    model = named.model
    asked = _canonical(echo.asked.get("weight_dtype") or named.weight_dtype, catalog)
    weight_name = engine.weight_name(asked, model, gpu)
    source = "catalog" if model.id else "derived"
    echo.take("weight_dtype", weight_name, "name" if named.weight_dtype else source)
    echo.values["weight_dtype"] = weight_name
    weights = weights_for(catalog.format(weight_name), model, catalog)
    cache_name = echo.asked.get("kv_dtype")
    if cache_name in {None, "auto"}:
        cache_name = named.kv_dtype or engine.cache_name(asked, model, weight_name, gpu)
        echo.values["kv_dtype"] = cache_name
        echo.taken["kv_dtype"] = "name" if named.kv_dtype else "derived"
    return weights, cache_name


def _cache_format(name: str, catalog: Catalog) -> CacheFormat:
    """The format of a cache, or two of them as `keys/values`."""
    keys, _, values = name.partition("/")
    found = []
    for part in (keys, values) if values else (name,):
        cache = catalog.format(part, "/kv_dtype").cache
        if cache is None:
            raise NotSupported(Fault("/kv_dtype", f"{part} is not a format that a cache can be quoted in."))
        found.append(cache)
    return paired(*found) if values else found[0]


def _check_covers(weights: WeightFormat, cache: CacheFormat, model: Model) -> None:
    """Refuse a format that says nothing of this model: one for experts or latent vectors that it does not have."""
    architecture = model.architecture
    if not weights.ideal and weights.quantizes.isdisjoint(architecture.kinds):
        kinds = ", ".join(sorted(weights.quantizes))
        detail = f"{weights.name} is a format for {kinds}, of which {model.name} has none."
        raise NotSupported(Fault("/weight_dtype", detail))
    if cache.rope_bits is not None and not any(owners.spec.kind == "latent" for owners in architecture.caches):
        detail = f"{cache.name} is a format for latent vectors, which {model.name} does not keep."
        raise NotSupported(Fault("/kv_dtype", detail))


def _canonical(name: str | None, catalog: Catalog) -> str | None:
    """A format's own name for whatever spelling was asked."""
    return None if name is None else catalog.format(name).name


def _lengths(echo: Echo, model: Model) -> tuple[int, int, int]:
    own = model.context_tokens
    asked = echo.asked.get("context_limit_tokens")
    if asked is not None and (own is None or asked < own):
        # Who says how long sequences may be at most, and no more, asks about sequences of that length.
        context = echo.take("context_tokens", asked, "derived")
    else:
        context = echo.take("context_tokens", own, "catalog" if model.id else "derived")
    if context is None:
        raise ValidationError(Fault("/context_tokens", "The model states no longest context: give context_tokens."))
    limit = echo.take("context_limit_tokens", context, "derived")
    prefix = echo.values["shared_prefix_tokens"]
    if limit < context:
        detail = f"context_limit_tokens {limit} is below context_tokens {context}."
        raise ValidationError(Fault("/context_limit_tokens", detail))
    if prefix >= context:
        detail = (
            f"shared_prefix_tokens {prefix} must be below context_tokens {context}: a sequence adds at least a token."
        )
        raise ValidationError(Fault("/shared_prefix_tokens", detail))
    return context, limit, prefix


def _longer(limit: int, model: Model, engine: Engine, heard: Heard | None) -> str:
    """What to say of sequences longer than the model's own: whether memory holds them is all that is quoted."""
    said = f"{limit:,} tokens are more than the {model.context_tokens:,} that {model.name} was published for"
    variable = None if isinstance(engine, PlainEngine) else engine.flags.longer
    if variable is None or (heard is not None and heard.longer):
        return f"{said}."
    return f"{said}: {engine.name} does not start for them unless {variable}=1 is set, whatever memory holds."


def _overrides(echo: Echo, model: Model) -> tuple[int | None, int | None]:
    """Weight bytes and parameter count that the question sets; None leaves them to the model."""
    asked = echo.asked
    given_bytes, given_count = asked.get("weight_bytes"), asked.get("parameters")
    if given_count is None:
        echo.take("parameters", model.architecture.parameters, "catalog" if model.id else "derived")
    count = None if given_count is None else whole(given_count)
    return (None if given_bytes is None else whole(given_bytes)), count
