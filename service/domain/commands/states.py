"""A model whose recurrent states a command keeps in another type than its config says: `--mamba-ssm-cache-dtype`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from service.domain.cache.recurrent import RecurrentCache
from service.domain.commands.reading import shown

if TYPE_CHECKING:
    from service.domain.architecture import CacheLayers
    from service.domain.commands.meaning import Understood
    from service.domain.naming import NamedModel

TYPE: Final = "_state_type"
"""What the flag sets for `with_state_type` to settle."""

_BYTES: Final = {"float32": 4, "float16": 2, "bfloat16": 2}


def with_state_type(found: Understood, named: NamedModel, typed: frozenset[str]) -> NamedModel:
    """The model with its states in the type that `found` says; `typed` are the mixers whose states the release types.

    A model without states is left as it is. Faults are added to `found`.
    """
    word, spelling = found.take_said(TYPE)
    if word is None:
        return named
    architecture = named.model.architecture
    specs = [owners.spec for owners in architecture.caches if isinstance(owners.spec, RecurrentCache)]
    if not specs:
        found.ignore(spelling)
    elif word not in _BYTES:
        found.fail(f"{spelling} needs one of auto, {', '.join(_BYTES)}, not {shown(word)}.")
    elif strange := sorted({spec.mixer.value for spec in specs} - typed):
        found.refuse(f"{spelling} is not modelled for states of {', '.join(strange)} in this release: leave it out.")
    else:
        found.notes.append(f"{spelling}: recurrent states are kept in {word}")
        caches = tuple(_typed(owners, _BYTES[word]) for owners in architecture.caches)
        model = replace(named.model, architecture=replace(architecture, caches=caches), memo={})
        return named._replace(model=model)
    return named


def _typed(owners: CacheLayers, element_bytes: int) -> CacheLayers:
    spec = owners.spec
    if not isinstance(spec, RecurrentCache):
        return owners
    return replace(owners, spec=replace(spec, state_element_bytes=element_bytes))
