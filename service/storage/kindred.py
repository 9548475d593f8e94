"""Names that the catalog does not state, led back to an entry of it: re-uploads, other spellings, derivatives.

Nothing is guessed by likeness. Each step takes off or exchanges one whole word that `domain.naming` knows, and the
first step that leads anywhere decides; where it leads to several entries, the name has as many readings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from service.domain.errors import Fault, UnknownModel
from service.domain.model import Model
from service.domain.naming import (
    UNTUNED,
    Ending,
    NamedModel,
    asked_forms,
    catalog_forms,
    ending_of,
    spelt,
    undated,
    untuned,
)
from service.storage.names import stated_names

_PLAIN: Final = frozenset({"bf16", "fp16"})
_NOT_SHAPE: Final = frozenset({"architectures", "max_position_embeddings", "torch_dtype", "dtype", "rope_scaling"})

_LONGEST_REPEATED: Final = 96
_LONGEST_READ: Final = 200

Ids: TypeAlias = frozenset[str]


@dataclass(frozen=True, slots=True)
class Reading:
    """Where a name leads: one id, or the candidates; with the number format it ends in and the words it passed over."""

    ids: tuple[str, ...]
    ending: Ending | None = None
    remark: str | None = None

    def named(self, name: str, model: Model, pointer: str) -> NamedModel:
        """The model that the one id leads to, as the name says it; raises UnknownModel for an unclear format."""
        ending = self.ending
        if ending is None:
            return NamedModel(model, note=_note(name, model, None, self.remark))
        if ending.refusal is not None:
            detail = (
                f"{name[:_LONGEST_REPEATED]!r} is {model.id} in a number format that cannot be told: {ending.refusal}. "
                f"Ask for {model.id} with weight_dtype or weight_bytes."
            )
            raise UnknownModel(Fault(pointer, detail, (str(model.id),)))
        own = model.checkpoint_format
        # A checkpoint that is stored in a scheme of the family named (fp8 by blocks) is the one meant.
        dtype = own if ending.weight_dtype and own.startswith(ending.weight_dtype) else ending.weight_dtype
        note = _note(name, model, dtype, " and ".join(filter(None, (ending.remark, self.remark))) or None)
        return NamedModel(model, dtype, ending.kv_dtype, note)


class KindredNames:
    """The catalog's names by the forms people give them. Names are only ever added: the caller knows which stand."""

    __slots__ = ("_loose", "_spelt", "_undated", "_untuned")

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._spelt: dict[str, tuple[str, ...]] = {}
        self._untuned: dict[str, tuple[str, ...]] = {}
        self._undated: dict[str, tuple[str, ...]] = {}
        self._loose: dict[str, tuple[str, ...]] = {}
        for name in names:
            self.add(name)

    def add(self, folded: str) -> None:
        """Take up a name of the catalog."""
        for form in catalog_forms(folded):
            _put(self._spelt, form, folded)
            for stem, _ in untuned(form):
                _put(self._untuned, stem, folded)
            stem_of_revision = undated(form)
            if stem_of_revision:
                _put(self._undated, stem_of_revision, folded)
                for stem, _ in untuned(stem_of_revision):
                    _put(self._loose, stem, folded)

    def spelt(self, form: str) -> tuple[str, ...]:
        """Names that are spelt so."""
        return self._spelt.get(form, ())

    def untuned(self, form: str) -> tuple[str, ...]:
        """Names that are spelt so but for a tuning word."""
        return self._untuned.get(form, ())

    def undated(self, form: str) -> tuple[str, ...]:
        """Names that are spelt so but for a revision at their end."""
        return self._undated.get(form, ())

    def loose(self, form: str) -> tuple[str, ...]:
        """Names that are spelt so but for a revision and a tuning word."""
        return self._loose.get(form, ())


class NameReader:
    """Reads names by the entries of one snapshot: `find` gives the ids of a stated name, `facts` those of an id."""

    __slots__ = ("_facts", "_find", "_index")

    def __init__(
        self,
        index: KindredNames,
        find: Callable[[str], tuple[str, ...]],
        facts: Callable[[str], Mapping[str, Any]],
    ) -> None:
        self._index = index
        self._find = find
        self._facts = facts

    def read(self, folded: str) -> Reading | None:
        """Where a folded name leads, or None where nothing explains it."""
        if len(folded) > _LONGEST_READ:
            return None
        owner, _, part = folded.rpartition("/")
        forms = asked_forms(part)
        stated = self._find(folded) or self._find(part)
        if stated:
            return Reading(stated)
        parted = [found for form in forms if (found := ending_of(form))]
        return self._spelt(forms) or self._ended(parted) or self._related(forms, parted, owner)

    def _spelt(self, forms: Iterable[str]) -> Reading | None:
        return next((_reading(ids) for form in forms if (ids := self._ids(self._index.spelt(form)))), None)

    def _ended(self, parted: Iterable[tuple[str, Ending]]) -> Reading | None:
        for stem, ending in parted:
            for form in asked_forms(stem):
                ids = self._bases(self._index.spelt(form))
                if ids:
                    return _reading(ids, ending)
        return None

    def _related(self, forms: Iterable[str], parted: Iterable[tuple[str, Ending]], owner: str) -> Reading | None:
        for form in forms:
            found = self._relatives(form, None, owner)
            if found:
                return found
        for stem, ending in parted:
            for form in asked_forms(stem):
                found = self._relatives(form, ending, owner)
                if found:
                    return found
        return None

    def _relatives(self, form: str, ending: Ending | None, owner: str) -> Reading | None:
        """The sibling that differs in a tuning word or in a revision left out; several where the shapes differ."""
        near = self._siblings(form, ending, owner) | self._bases(self._index.undated(form))
        if not near:
            return None
        wider = near | self._bases(self._index.loose(form))
        alike = len({self._shape(entry_id) for entry_id in wider}) == 1
        remark = "the name's tuning word or revision differs from the entry's"
        return _reading(near if alike else wider, ending, remark)

    def _siblings(self, form: str, ending: Ending | None, owner: str) -> Ids:
        explicit = ending is not None and ending.weight_dtype is not None
        found = {i for i in self._bases(self._index.untuned(form)) if explicit or self._plain(i)}
        for stem, word in untuned(form):
            beside = self._bases(self._index.spelt(stem)) | self._bases(self._index.untuned(stem))
            if word in UNTUNED:
                found |= {i for i in beside if explicit or self._plain(i) or self._tunings(i, stem) > 1}
            else:
                found |= {i for i in beside if self._tunings(i, stem) > 1 and self._owned(i, owner)}
        return frozenset(found)

    def _ids(self, names: Iterable[str]) -> Ids:
        return frozenset(entry_id for name in names for entry_id in self._find(name))

    def _bases(self, names: Iterable[str]) -> Ids:
        """Entries that are no derivatives themselves: a name is led back by one number format only."""
        return frozenset(i for i in self._ids(names) if not ((end := ending_of(spelt(i))) and end[1].derived))

    def _plain(self, entry_id: str) -> bool:
        """Whether the checkpoint is in 16 bits; siblings of one that is not are often stored otherwise."""
        return (self._facts(entry_id).get("checkpoint") or {}).get("dtype") in _PLAIN

    def _tunings(self, entry_id: str, stem: str) -> int:
        """How many tunings of one name the entry itself states to be of its shape."""
        forms = {form for name in stated_names(entry_id, self._facts(entry_id)) for form in catalog_forms(name)}
        words = {word for form in forms for rest, word in untuned(form) if rest == stem}
        return len(words) + (stem in forms)

    def _owned(self, entry_id: str, owner: str) -> bool:
        """Whether the name has no owner, or the one whose models the entry states."""
        names = stated_names(entry_id, self._facts(entry_id))
        return not owner or any(name.startswith(f"{owner}/") for name in names)

    def _shape(self, entry_id: str) -> str:
        facts = self._facts(entry_id)
        shape = {key: value for key, value in (facts.get("config") or {}).items() if key not in _NOT_SHAPE}
        return repr((sorted(shape.items()), (facts.get("checkpoint") or {}).get("dtype")))


def _note(name: str, model: Model, dtype: str | None, remark: str | None) -> str:
    format_said = f" with weights in {dtype}" if dtype else ""
    return f"the name {name[:_LONGEST_REPEATED]} is read as {model.id}{format_said}{f'; {remark}' if remark else ''}"


def _reading(ids: Iterable[str], ending: Ending | None = None, remark: str | None = None) -> Reading:
    return Reading(tuple(sorted(ids)), ending, remark)


def _put(forms: dict[str, tuple[str, ...]], form: str, name: str) -> None:
    held = forms.get(form, ())
    if name not in held:
        forms[form] = (*held, name)
