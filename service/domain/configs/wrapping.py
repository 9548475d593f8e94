"""What wrappers of a decoder share: finding its config inside theirs, reading it, and adding their encoders to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from service.domain.architecture import Architecture, Module
from service.domain.configs.fields import Fields
from service.domain.configs.rotary import PICTURED
from service.domain.errors import QuoteError

DEFAULT_ENCODER = "{0}: the config is silent, the encoder is the model code's own default"
_INHERITED = ("quantization_config", "compression_config", "torch_dtype", "dtype")
# A default stands behind the other name of its field too.
_ALIASES = {"num_experts": "num_local_experts"}
_NAMES = ("text_config", "llm_config", "language_config")
_NOTHING: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Tying:
    """Whether head and table are one where the outer config is silent, and whether the inner one may say so too.

    `unsaid` is what an inner one that may is taken for where it is silent; `never` is for a wrapper whose code ties
    nothing.
    """

    silent: bool = False
    inner: bool = False
    never: bool = False
    unsaid: bool = False


def read_text(
    fields: Fields,
    kind: str,
    tying: Tying | None = None,
    *,
    defaults: Mapping[str, Any] = _NOTHING,
    renamed: Mapping[str, str] = _NOTHING,
) -> Architecture:
    """Read the decoder: from the nested config, or from the outer one where the file was flattened.

    `kind` is the model_type of a nested config that has none and `renamed` maps the wrapper's words for a decoder to
    the families that read them; `defaults` stand for what the wrapper's code assumes. Types, formats and tied tables
    are inherited from the outer config.
    """
    from service.domain.configs import read_config  # noqa: PLC0415  # the registry imports the wrappers

    inner = fields.inner(*_NAMES)
    stated = (inner.get("model_type") if inner else None) or kind
    said = {"model_type": renamed.get(stated, stated) if isinstance(stated, str) else stated}
    if tying is not None:
        said["tie_word_embeddings"] = _tied(fields, inner, tying)
    return read_nested(fields, lambda text: read_config({**text.values, **said}, pointer=text.pointer), defaults)


def read_nested(
    fields: Fields, read: Callable[[Fields], Architecture], defaults: Mapping[str, Any] = _NOTHING
) -> Architecture:
    """Read the decoder by `read` from its fields, those inherited among them; refusals name the field in the file."""
    inner = fields.inner(*_NAMES)
    values, inherited = _stated(fields, inner, defaults)
    pointer = inner.pointer if inner else fields.pointer
    try:
        return read(Fields(values, pointer))
    except QuoteError as error:
        raise _repointed(error, pointer, fields.pointer, inherited) from error


def _stated(
    fields: Fields, inner: Fields | None, defaults: Mapping[str, Any]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What the decoder's config says, silence filled from the outer one and the defaults; and what was inherited."""
    values = dict(inner.values if inner else fields.values)
    inherited = tuple(n for n in _INHERITED if values.get(n) is None and fields.values.get(n) is not None)
    unsaid = {name: value for name, value in defaults.items() if _ALIASES.get(name, name) not in values}
    return {**unsaid, **values, **{name: fields.values[name] for name in inherited}}, inherited


def _repointed(error: QuoteError, inner: str, outer: str, inherited: tuple[str, ...]) -> QuoteError:
    """The refusal with inherited fields named where they stand in the file."""

    def moved(pointer: str) -> str:
        below = pointer.removeprefix(inner)
        return outer + below if below.split("/")[1:2] and below.split("/")[1] in inherited else pointer

    return type(error)(*(fault._replace(pointer=moved(fault.pointer)) for fault in error.faults))


def _tied(fields: Fields, inner: Fields | None, tying: Tying) -> bool:
    outer = fields.flag("tie_word_embeddings", default=tying.silent)
    if tying.never:
        return False
    said = inner.flag("tie_word_embeddings", default=tying.unsaid) if inner else tying.unsaid
    return outer or (tying.inner and said)


def divided_width(fields: Fields, hidden: int, heads: int) -> int:
    """The width of a head where a decoder's code divides whatever the remainder; the sizes stand for silent ones."""
    inner = fields.inner("text_config") or fields
    width = inner.integer("hidden_size", default=hidden) // inner.integer("num_attention_heads", default=heads)
    return max(1, width)


def compose(fields: Fields, text: Architecture, encoders: Iterable[Module], *notes: str) -> Architecture:
    """The decoder with the encoders' modules behind its own, under the wrapper's model_type."""
    model_type = fields.text("model_type") or text.model_type
    return replace(
        text,
        model_type=model_type,
        rotary=text.rotary._replace(pictures=text.rotary.pictures or model_type in PICTURED),
        modules=(*text.modules, *encoders),
        assumptions=(*text.assumptions, *notes),
    )


def encoder(
    fields: Fields,
    name: str,
    read: Callable[[Fields], Iterable[Module]],
    silent: Mapping[str, Any] = _NOTHING,
) -> tuple[list[Module], tuple[str, ...]]:
    """The modules of the encoder whose config stands under `name`.

    Where there is none, it is read from `silent`, what the wrapper's own code takes then, with a note.
    """
    inner = fields.inner(name)
    if inner is not None:
        return list(read(inner)), ()
    return list(read(Fields(silent, f"{fields.pointer}/{name}"))), (DEFAULT_ENCODER.format(name),)
