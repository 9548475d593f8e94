"""A model as it is quoted: its normal form, and the formats its checkpoint is stored and computed in."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from service.domain.architecture import COMPUTE_TYPES, ModuleKind
from service.domain.configs import read_config
from service.domain.errors import CatalogFactError, UnknownArchitecture

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from service.domain.architecture import Architecture
    from service.domain.catalog import Entry

_ASSUMED_TYPE = "bf16"


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Model:
    """A model; `id` and `revision` are None where it came as a config in the question.

    `memo` keeps what is derived from the shapes alone (loads of a layout, bytes of a format), never an answer; only
    `remembered` adds to it.
    """

    id: str | None
    name: str
    architecture: Architecture
    checkpoint_format: str
    compute_type: str
    cache_format: str | None
    context_tokens: int | None
    revision: int | None
    weight_bytes: int | None = None
    """What the published file holds, where its table of tensors was read."""
    kind_formats: Mapping[ModuleKind, str] = field(default_factory=dict)
    """Kinds of modules that the checkpoint stores in another format, where the catalog knows better than the config."""
    memo: dict[Hashable, Any] = field(default_factory=dict, repr=False)


def from_facts(entry: Entry) -> Model:
    """Read a catalog entry of kind `model`.

    Raises UnknownArchitecture where no reader knows its config yet or the entry says what it waits for, ConfigError
    where the config contradicts itself, CatalogFactError where the entry lacks its config or checkpoint.
    """
    facts = entry.facts
    try:
        config, name, checkpoint = facts["config"], facts["name"], facts["checkpoint"]["dtype"]
    except (KeyError, TypeError) as error:
        raise CatalogFactError.at("/facts", f"The model {entry.id} cannot be read: {error}.") from error
    if not isinstance(config, dict):
        raise CatalogFactError.at("/facts/config", f"The model {entry.id} cannot be read: its config is no object.")
    if facts.get("waits_for"):
        raise UnknownArchitecture.at("/model", f"{name} waits for {facts['waits_for']}.")
    architecture = read_config(config, pointer="/model")
    compute = compute_type(architecture, checkpoint)
    return Model(
        entry.id,
        name,
        architecture,
        checkpoint,
        compute,
        architecture.cache_format,
        facts.get("context_tokens") or architecture.context_tokens,
        entry.revision,
        facts["checkpoint"].get("weight_bytes"),
        {ModuleKind(kind): dtype for kind, dtype in (facts["checkpoint"].get("module_dtypes") or {}).items()},
    )


def from_config(config: Mapping[str, Any], *, assume_decoder: bool = False) -> Model:
    """Read a published config.json that came with a question; nothing of it is stored."""
    architecture = read_config(config, assume_decoder=assume_decoder)
    compute = compute_type(architecture, None)
    checkpoint = architecture.weight_format or compute
    stated = "".join(filter(str.isprintable, str(config.get("_name_or_path") or "")[:200]))
    name = stated or architecture.model_type
    return Model(
        None, name, architecture, checkpoint, compute, architecture.cache_format, architecture.context_tokens, None
    )


def compute_type(architecture: Architecture, checkpoint: str | None) -> str:
    """The type activations and, by default, the cache are kept in: the config's own, or bf16 where it is silent."""
    stated = COMPUTE_TYPES.get(architecture.torch_dtype or "")
    return stated or COMPUTE_TYPES.get(checkpoint or "", _ASSUMED_TYPE)
