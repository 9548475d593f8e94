"""Repositories of GGUF files: `owner/name:TYPE`, with the file's own name beside it, or a file alone."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from service.domain.commands.models import HUB_FOLDER, SHARD, own_format
from service.domain.engines.plain import PLAIN_TYPES
from service.domain.errors import QuoteError
from service.domain.naming import ending_of, spelt

if TYPE_CHECKING:
    from service.domain.commands.meaning import Understood
    from service.domain.naming import NamedModel
    from service.domain.question import Catalog

_REPOSITORY = re.compile(r"(?P<name>[\w.-]+/[\w.-]+)(?::(?P<type>[\w.-]+))?", re.ASCII)
_TYPE = re.compile(r"(?:^|[-._/])((?:I?Q\d(?:_[A-Z0-9]+)*|TQ\d_0|MXFP4(?:_MOE)?|BF16|F16|F32))$", re.IGNORECASE)
_COMMON = "q4_k_m"
_GGUF = ".gguf"
_SHOWN = 60
_MIXED = re.compile(r"(?:^|[-._/:])UD-", re.IGNORECASE)
_PREFIXES = re.compile(r"^UD-", re.IGNORECASE)
_MIXED_STEM = re.compile(r"[-._](?:UD|i1)$", re.IGNORECASE)


def file_format(found: Understood, word: str | None) -> tuple[str | None, str | None]:
    """The model's word, and the type of its file: None where no repository is asked, "" where it does not say."""
    repository, file = found.take("_repository"), found.take("_file")
    found.said_by.pop("_repository", None)
    spelling = found.said_by.pop("_file", None)
    if repository is None:
        if spelling is not None:
            found.ignore(spelling)
        _note_mix(found, word)
        return typed_file(word) if word else (None, None)
    _note_mix(found, file or repository)
    parts = _REPOSITORY.fullmatch(repository.strip())
    if parts is None:
        found.fail(f"{repository[:_SHOWN]!r} is no repository: write owner/name, or owner/name:Q4_K_M.")
        return word, None
    return parts["name"], _type_of(parts["type"], file)


def _note_mix(found: Understood, word: str | None) -> None:
    """Say of files whose types are mixed for each model anew that a type by name is near and not exact."""
    if word is not None and _MIXED.search(word):
        found.notes.append(
            "UD- files mix types model by model: give the size of the file as weight_bytes for its exact weights"
        )


def typed_file(word: str) -> tuple[str, str | None]:
    """A file of a type that no model's name ends in, such as F16, or in a repository's folder, and its type."""
    kind, hub = file_type(word), HUB_FOLDER.search(word)
    if kind is None or (hub is None and ending_of(spelt(f"any-{kind}"))):
        return word, None
    if hub is not None:
        return f"{hub[1]}/{hub[2]}", kind
    stem = SHARD.sub("", word[: -len(_GGUF)])
    return f"{_MIXED_STEM.sub('', stem[: -len(kind) - 1])}{_GGUF}", kind


def is_file(word: str | None) -> bool:
    """Whether a model's word is a GGUF file by its name."""
    return word is not None and word.casefold().endswith(_GGUF)


def file_type(word: str | None) -> str | None:
    """The type that the name of a GGUF file ends in; None for what is no such file, or says none."""
    if word is None or not is_file(word):
        return None
    return _type_of(None, word[: -len(_GGUF)].replace("\\", "/")) or None


def agrees(kind: str | None, other: NamedModel | None, named: NamedModel, catalog: Catalog) -> bool:
    """Whether what a command names is stored as the model beside it says: by the file's type, or else by its name.

    A file of a type may be made of any checkpoint, unless the model's own name says another one.
    """
    if not kind:
        return other is None or own_format(other) == own_format(named)
    try:
        return named.weight_dtype in {None, catalog.format(kind, "/command").name}
    except QuoteError:
        return named.weight_dtype is None


def check_file(found: Understood, word: str | None, named: NamedModel, *, beside: str | None) -> None:
    """Refuse a file whose name says no type: it may be a quarter of the size that its model is published in."""
    if word is None or not is_file(word) or "weight_dtype" in found.settings or beside:
        return
    if named.weight_dtype is None and named.model.checkpoint_format in PLAIN_TYPES:
        detail = f"{word[-_SHOWN:]!r} says no file type, such as Q4_K_M: give weight_dtype beside the command."
        found.fail(detail)


def put_file_format(
    found: Understood, kind: str | None, named: NamedModel, catalog: Catalog, *, beside: str | None
) -> None:
    """Set the type of weights that a file of a repository has; without a name llama.cpp takes the common one."""
    if kind is None:
        return
    if kind:
        try:
            found.put("weight_dtype", catalog.format(kind, "/command").name, "the file")
        except QuoteError:
            if beside is not None:
                found.notes.append(
                    f"the file type {kind[:_SHOWN]} of the command is taken for the weight_dtype beside it"
                )
                return
            found.fail(
                f"The file type {kind[:_SHOWN]!r} is not known: give the nearest one that is as weight_dtype beside the"
                " command, and the size of the file as weight_bytes."
            )
    elif beside is None and own_format(named) in PLAIN_TYPES:
        found.put("weight_dtype", _COMMON, "the repository")
        found.notes.append("of a repository without a file type llama.cpp takes Q4_K_M where there is one")


def _type_of(tag: str | None, file: str | None) -> str:
    if file:
        stem = SHARD.sub("", file.removesuffix(".gguf"))
        found = _TYPE.search(stem)
        return found[1].casefold() if found else ""
    return _PREFIXES.sub("", tag or "").casefold() if (tag or "").casefold() != "latest" else ""
