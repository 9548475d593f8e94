"""What the model of a command is: a name of the catalog, a path whose last part is one, a repository with a file."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from service.domain.engines.plain import PLAIN_TYPES
from service.domain.errors import Fault, QuoteError, UnknownModel

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from service.domain.commands.meaning import Understood
    from service.domain.naming import NamedModel
    from service.domain.question import Catalog

_POINTER = "/command"
_SHOWN = 120
HUB_FOLDER = re.compile(r"models--([\w.-]+?)--([\w.-]+)", re.ASCII)
SHARD = re.compile(r"[-.]\d{5}-of-\d{5}$", re.ASCII)
# What llama.cpp's own cache puts before the name of a file: the owner and the repository of GGUF files.
_CACHED = re.compile(r"^[\w.-]+-GGUF_(?=[^_])", re.ASCII | re.IGNORECASE)
# What stands before the type of files whose types are mixed for each model anew, or made with an importance matrix.
_MIXED = re.compile(r"[-._](?:UD|i1)(?=[-._](?:I|T)?Q\d)", re.ASCII | re.IGNORECASE)
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]{0,20}://", re.ASCII)
_OF_HUB = frozenset({"hf", "huggingface"})


class Pointed(NamedTuple):
    """The name that a command's model is asked by, and whether it stands in a path, where it is only likely."""

    name: str
    path: bool


def pointed(word: str) -> Pointed:
    """The name in a word such as `owner/name`, `/models/name/`, `models--owner--name/snapshots/…` or `name.gguf`."""
    hub = HUB_FOLDER.search(word)
    if hub:
        return Pointed(f"{hub[1]}/{hub[2]}", path=True)
    scheme = _SCHEME.match(word)
    bare = word[scheme.end() :] if scheme else word
    parts = [part for part in bare.replace("\\", "/").split("/") if part not in {"", ".", "..", "~"}]
    if scheme and scheme[0].partition(":")[0] in _OF_HUB and len(parts) == 2:  # noqa: PLR2004  # owner and name
        return Pointed("/".join(parts), path=False)
    path = bool(scheme) or word.startswith(("/", ".", "~")) or len(parts) > 2 or "\\" in word  # noqa: PLR2004
    last = parts[-1] if parts else word
    file = last.casefold().endswith((".gguf", ".bin", ".safetensors"))
    if not path and not file:
        return Pointed(word, path=False)
    stem = last.rpartition(".")[0] if file else last
    stem = _CACHED.sub("", stem) if file else stem
    return Pointed(_MIXED.sub("", SHARD.sub("", stem)), path=True)


def found_model(word: str, catalog: Catalog, notes: list[str]) -> tuple[str, NamedModel]:
    """The name to ask by and its model; raises UnknownModel at the command, with the way out where it is a path."""
    name, path = pointed(word)
    try:
        named = catalog.named_model(name, _POINTER)
    except UnknownModel as error:
        faults = [_with_way_out(fault, word) for fault in error.faults] if path else error.faults
        raise UnknownModel(*faults) from error
    if path:
        notes.append(f"{word[:_SHOWN]} of the command is taken for {named.model.name} by its name")
    return name, named


def _with_way_out(fault: Fault, word: str) -> Fault:
    detail = f"{word[:_SHOWN]!r} is a path that names no model of the catalog: give model beside the command."
    return Fault(_POINTER, detail, fault.nearest)


def own_format(named: NamedModel) -> str:
    """The number format that a checkpoint has by its name, or else by the catalog."""
    return named.weight_dtype or named.model.checkpoint_format


def settle_weights(
    found: Understood,
    named: NamedModel,
    catalog: Catalog,
    methods: Mapping[str, Mapping[str, Any]],
    asked: Mapping[str, Any],
) -> None:
    """Settle what the flags say of the weights beside what the checkpoint is stored in.

    `--dtype` is what is computed in: weights have it only where nothing quantizes them. `--quantization` names what a
    checkpoint is already in, or turns 16 bits into fewer on the way into memory.
    """
    own, beside = own_format(named), asked.get("weight_dtype")
    if beside is not None:
        beside = catalog.format(beside).name
    _settle_method(found, named, methods, own, beside)
    word, spelling = found.take_said("_dtype")
    if word is None:
        return
    word = word.removeprefix("torch.")
    try:
        computed = catalog.format(word, _POINTER).name
    except QuoteError:
        computed = ""
    if computed not in PLAIN_TYPES:
        found.fail(f"{spelling} needs a type that is computed in, such as bfloat16, float16 or float32, not {word!r}.")
        return
    stored = found.settings.get("weight_dtype") or beside or own
    if stored in PLAIN_TYPES:
        found.put("weight_dtype", computed, spelling)
    elif computed == "fp32":
        found.refuse(f"{spelling} float32 beside weights in {stored} is not modelled: leave it out.")
    else:
        found.ignore(spelling)


def _settle_method(
    found: Understood,
    named: NamedModel,
    methods: Mapping[str, Mapping[str, Any]],
    own: str,
    beside: str | None,
) -> None:
    method, spelling = found.take_said("_quantization")
    if method is None:
        return
    rule = methods.get(method)
    if rule is None:
        found.refuse(f"{spelling} {method!r} is not modelled; these are: {', '.join(sorted(methods))}.")
        return
    formats, loaded = rule.get("formats", ()), rule.get("loaded_as")
    if own in formats or beside in formats:
        found.ignore(spelling)
    elif loaded and own in PLAIN_TYPES:
        found.put("weight_dtype", loaded, spelling)
    else:
        needed = f"a checkpoint in {' or '.join(formats[:3])}" if formats else "a checkpoint in 16 bits"
        detail = f"{spelling} {method} needs {needed}, and {named.model.name} is in {own}"
        found.fail(f"{detail}: name the checkpoint that is, or give weight_dtype beside the command.")
