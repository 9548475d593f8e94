"""A question with a command line in it, as the question it stands for, each name with where it came from."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from service.domain.commands.agreement import check_agreement
from service.domain.commands.meaning import POINTER, Meaning, Understood, merged
from service.domain.commands.models import found_model, settle_weights
from service.domain.commands.placing import with_chosen
from service.domain.commands.programs import Started, started
from service.domain.commands.repositories import agrees, check_file, file_format, file_type, is_file, put_file_format
from service.domain.commands.scaling import NAMES, rescaled_model
from service.domain.commands.settling import check_devices, settle
from service.domain.commands.states import TYPE, with_state_type
from service.domain.engines.plain import EngineDefaults, PlainEngine
from service.domain.errors import Fault, NotSupported, QuoteError, ValidationError
from service.domain.model import from_config
from service.domain.naming import NamedModel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.domain.engines import Engine, ServingEngine
    from service.domain.question import Catalog

_STARTS_FOR_ITS_MODEL = frozenset({"vllm", "sglang"})
"""Engines that start for the model's longest sequence where nothing says how long."""
_OF_THE_CONFIG = frozenset({"_dtype", "_quantization", TYPE}) | NAMES
"""What flags say that depends on the config of a model."""
_SHOWN = 60
_LONG_DASHES = ("\N{EN DASH}", "\N{EM DASH}", "\N{MINUS SIGN}")
"""What word processors and web pages make of hyphens."""


@dataclass(frozen=True, slots=True)
class Heard:
    """A question after its command was read: `asked` has all names but `command`, `taken` the source of those it set.

    `said` is what the answer shows of it, `said_by` the flag of each name. `fitted` is the flag that leaves the longest
    sequence to what memory holds, empty where none does; `longer` says that it may be longer than the model's own.
    """

    text: str
    asked: Mapping[str, Any]
    taken: Mapping[str, str]
    said: Mapping[str, Any]
    said_by: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    fitted: str = ""
    longer: bool = False
    named: NamedModel | None = None
    """The model, where it was read for what the command says of it."""

    def with_limit(self, tokens: int, note: str) -> Heard:
        """The same with the longest sequence that memory holds, as the command has the engine choose it."""
        name = "context_limit_tokens"
        return replace(
            self,
            asked={**self.asked, name: tokens},
            taken={**self.taken, name: "command"},
            said={**self.said, "set": dict(sorted({**self.said["set"], name: tokens}.items()))},
            said_by={**self.said_by, name: self.fitted},
            notes=(*self.notes, note),
            fitted="",
        )

    def pointed(self, error: QuoteError) -> QuoteError:
        """A refusal of the answer with names that the command set pointing at it."""
        return merged(error, self.said_by)


def heard(asked: Mapping[str, Any], catalog: Catalog) -> Heard:
    """What `hear` of the package answers."""
    text = str(asked["command"])
    beside = {name: value for name, value in asked.items() if name != "command"}
    start = started(text, beside.get("engine"))
    return _Hearing(text, beside, catalog, start, _engine(start, beside, catalog)).heard()


def _engine(start: Started, beside: Mapping[str, Any], catalog: Catalog) -> ServingEngine:
    given = beside.get("engine")
    if given is not None and given != start.engine:
        detail = f"The command starts {start.engine} ({start.program}), and engine is {given}."
        raise ValidationError(Fault("/engine", detail, (start.engine,)), Fault(POINTER, detail))
    try:
        engine: Engine = catalog.engine(start.engine)
    except NotSupported as error:
        detail = f"Engine {start.engine} ({start.program}) cannot be quoted yet.{_instead(start, catalog)}"
        raise NotSupported(Fault(POINTER, detail)) from error
    if isinstance(engine, PlainEngine):
        raise ValidationError(Fault(POINTER, f"Engine {engine.name} has no command line: leave engine out."))
    return engine


def _instead(start: Started, catalog: Catalog) -> str:
    """What to ask instead of ollama, which runs the code of llama.cpp."""
    engine = catalog.engine("llama.cpp") if start.engine == "ollama" else None
    if engine is None or isinstance(engine, PlainEngine):
        return ""
    meaning = Meaning(engine.flags, engine.takes, engine.name)
    for name, word in start.variables.items():
        if name in engine.flags.ollama:
            meaning.one(engine.flags.ollama[name], name, word.text)
    said = "".join(f", {name} {value}" for name, value in meaning.found.settings.items())
    return f" It runs llama.cpp: ask for engine llama.cpp{said}."


def _not_known(part: str) -> str:
    what = "the value" if part.startswith("<") else "what the shell would put"
    return f"{part[:_SHOWN]} is not known here: write {what} in its place."


def _stray(word: str, beside: str) -> str:
    if word.startswith(_LONG_DASHES):
        return f"{word[:_SHOWN]!r} begins with a long dash, which no program reads as a hyphen: write it with - or --."
    return f"{word[:_SHOWN]!r} belongs to no flag{beside}: is a quote missing, or a flag before it?"


class _Hearing:
    """One command on its way to a question."""

    def __init__(
        self, text: str, beside: Mapping[str, Any], catalog: Catalog, start: Started, engine: ServingEngine
    ) -> None:
        self.text, self.beside, self.catalog, self.start, self.engine = text, beside, catalog, start, engine
        given: str | None = beside.get("engine_version")
        self.version = given or start.version
        self.found = Understood()
        self.defaults: EngineDefaults
        words = (*start.words, *start.variables.values())
        # What a shell would have put in, each part once.
        self.unknown = list(dict.fromkeys(part for word in words if word.expanded for part in word.expanded))

    def heard(self) -> Heard:
        """Every flag, then what they say together, then what they say of the model."""
        found = self.found
        others = self._read()
        found.check()
        word = self._model_word(others)
        settle(found, self.engine, self.version, self.beside)
        check_devices(found, self.start, self.beside)
        self.beside = with_chosen(found, self.beside, self.start.visible_gpus)
        self._see_devices()
        named = self._model(word)
        if named is not None:
            named = rescaled_model(found, named, self.defaults.lengths)
            named = with_state_type(found, named, self.defaults.typed_states)
            settle_weights(found, named, self.catalog, self.engine.flags.quantization, self.beside)
        found.check()
        found.put("engine", self.start.engine, self.start.program)
        if self.start.version is not None:
            found.put("engine_version", self.start.version, self.start.version_by)
        check_agreement(found, self.beside, self.catalog)
        return self._result(named)

    def _read(self) -> list[str]:
        """Read flags and variables; the words that are neither are left.

        Where nobody says which release it is, flags of other ones are taken where they are written out, with a warning.
        """
        start, engine, table = self.start, self.engine, self.engine.flags
        release = self._release()
        parsed = table.parser(release, others=not self.version).parse(start.words)
        meaning = Meaning(table, engine.takes, engine.name)
        meaning.found = found = self.found
        meaning.apply(parsed.given)
        meaning.variables(start.variables)
        others = meaning.strangers(parsed.others, release)
        if start.undated and not self.version:
            which = f"The image {start.undated[:_SHOWN]} does not say which release of {engine.name} it has"
            found.warnings.append(f"{which}: quoted as {release}; give engine_version for another release.")
        for file in start.files:
            known = "give the variables that matter in the command"
            found.warnings.append(f"What the file {file[:_SHOWN]} sets (--env-file) is not known here: {known}.")
        for spelling in () if self.version else dict.fromkeys(each.spelling for each in parsed.given):
            why = table.absent(spelling, release)
            if why:
                found.warnings.append(f"{engine.name} {release}: {why}; give engine_version for another release.")
        self._check_expanded()
        return others

    def _release(self) -> str:
        """The name of the release, the newest where nobody says; raises ValidationError for one that never was."""
        asked = {"engine_version": self.version} if self.version else {}
        try:
            self.defaults = self.engine.release_defaults(asked)
        except QuoteError as error:
            said_by = {} if "engine_version" in self.beside else {"engine_version": self.start.version_by}
            raise merged(error, said_by) from error
        return self.defaults.version or ""

    def _check_expanded(self) -> None:
        """Refuse what a shell would have put in, where it stands in a value that matters."""
        if not self.unknown:
            return
        found = self.found
        values = [str(value) for value in found.settings.values()]
        values += [fault.detail for fault in (*found.wrong, *found.refused)]
        for part in self.unknown:
            if any(part in value for value in values):
                found.wrong = [fault for fault in found.wrong if part not in fault.detail]
                found.fail(_not_known(part))

    def _model_word(self, others: list[str]) -> str | None:
        """The model as the command names it, by a flag or alone."""
        found, start = self.found, self.start
        word: str | None = found.take("model")
        others = [other.strip() for other in others if other.strip()]
        spelling = found.said_by.pop("model", "the model")
        unknown = [part for part in self.unknown if any(part in other for other in (*others, word or ""))]
        for part in unknown:
            found.fail(_not_known(part))
        strays = others if not self.engine.flags.style.positional else [w for w in others[:1] if word not in {None, w}]
        for stray in () if unknown else (*strays, *others[1:])[:1]:
            found.fail(_stray(stray, f" beside {spelling} {word[:_SHOWN]}" if word else ""))
        word = word or (others[0] if others else None)
        known = bool({"model", "config"} & self.beside.keys()) or "_repository" in found.settings
        if word is None and not known:
            found.fail(f"{start.program} is given no model: name one in the command, or give model beside it.")
        found.check()
        return word

    def _see_devices(self) -> None:
        """An engine without tensor parallelism uses every device it sees."""
        visible, found = self.start.visible_gpus, self.found
        if "tensor_parallel" in self.engine.takes or "gpu_count" in found.settings:
            return
        if self.start.unseen is not None and visible is None:
            found.fail(f"{self.start.unseen[:_SHOWN]} is not known here: write which devices the engine sees.")
        elif visible and visible > 1:
            found.put("gpu_count", visible, self.start.visible_by)

    def _model(self, word: str | None) -> NamedModel | None:
        """The model that the question is about; what is given beside the command says what its paths are."""
        found, dtype = self.found, self.beside.get("weight_dtype")
        repository, kind = file_format(found, word)
        if kind is None and {"model", "config"} & self.beside.keys():
            kind = file_type(repository)
        named = self._named(repository, kind)
        if named is None:
            return None
        put_file_format(found, kind, named, self.catalog, beside=dtype)
        if kind is None:
            check_file(found, repository, named, beside=dtype)
        return named

    def _named(self, repository: str | None, kind: str | None) -> NamedModel | None:
        """The model of config, of model, or of the command's own word; None where nothing depends on a config here."""
        found, given = self.found, self.beside.get("model")
        if "config" in self.beside:
            if repository:
                found.notes.append(f"{repository[:_SHOWN]} of the command is the model of config")
            stored = kind is not None or is_file(repository) or _OF_THE_CONFIG & found.settings.keys()
            return self._described() if stored or self._starts_for_its_own() else None
        if given is not None:
            named = self.catalog.named_model(given)
            self._check_same(repository, kind, named, given)
            return named
        found.check()
        assert repository is not None  # noqa: S101  # refused before
        name, named = found_model(repository, self.catalog, found.notes)
        found.put("model", name, "the model")
        return named

    def _starts_for_its_own(self) -> bool:
        """Whether the engine looks up in the config for how long a sequence it starts."""
        given = {*self.found.settings, *self.beside}
        return self.start.engine in _STARTS_FOR_ITS_MODEL and "context_limit_tokens" not in given

    def _described(self) -> NamedModel:
        """The model of a config, which is read here only where a flag, a file or a length depends on it."""
        config, assume = self.beside["config"], self.beside.get("assume") == "decoder"
        return NamedModel(from_config(config, assume_decoder=assume))

    def _check_same(self, word: str | None, kind: str | None, named: NamedModel, given: str) -> None:
        """A name that the catalog knows must lead to the model given beside it; whatever else is taken for it.

        `kind` is the type of the file, where that is told apart from the name.
        """
        if word is None:
            return
        other: NamedModel | None = None
        try:
            _, other = found_model(word, self.catalog, [])
        except QuoteError:
            self.found.notes.append(f"{word[:_SHOWN]} of the command is taken for {given}, the model beside it")
        if (other and other.model.id != named.model.id) or not agrees(kind, other, named, self.catalog):
            detail = f"The command serves {word[:_SHOWN]}, and model is {given}."
            self.found.wrong += [Fault("/model", detail), Fault(POINTER, detail)]

    def _result(self, named: NamedModel | None) -> Heard:
        found, beside, start = self.found, self.beside, self.start
        settings = found.settings
        asked = {**settings, **beside}
        taken = {name: "command" for name in settings if name not in beside}
        self._derive_lengths(asked, taken, named)
        said = {
            "engine": start.engine,
            "program": start.program,
            "ignored": found.ignored,
            "set": {name: settings[name] for name in sorted(settings) if name != "engine"},
        }
        said_by = {name: flag for name, flag in found.said_by.items() if name in taken}
        notes, warnings = tuple(found.notes), tuple(found.warnings)
        return Heard(self.text, asked, taken, said, said_by, notes, warnings, found.fitted, self._is_longer(), named)

    def _is_longer(self) -> bool:
        """Whether a variable lets the engine start for more than the model's own length."""
        word = self.start.variables.get(self.engine.flags.longer or "")
        return word is not None and not word.expanded and word.text.strip().casefold() in {"1", "true", "yes", "on"}

    def _short_tokens(self, named: NamedModel | None) -> int | None:
        """The length of the shorter of a model's two sets of rotary frequencies, where the release starts for it."""
        if named is None or not self.defaults.lengths.short_of_two:
            return None
        return named.model.architecture.rotary.short_tokens

    def _check_short(self, short_tokens: int, context_tokens: int | None) -> None:
        """Refuse a context longer than the shorter set's sequences, which the start is for."""
        if context_tokens and context_tokens > short_tokens:
            detail = (
                f"The command starts {self.engine.name} for {short_tokens:,} tokens, those of the model's shorter"
                f" rotary frequencies: give --max-model-len for sequences of {context_tokens:,}."
            )
            raise ValidationError(Fault("/context_tokens", detail), Fault(POINTER, detail))

    def _derive_lengths(self, asked: dict[str, Any], taken: dict[str, str], named: NamedModel | None) -> None:
        """What follows for the lengths where the command names none: the model's own, shared by slots.

        A length that it does name is the longest sequence, which a question without a context asks for by itself.
        """
        own, context = (named.model.context_tokens if named else None), asked.get("context_tokens")
        slots = asked.get("parallel_slots", 1)
        if "context_limit_tokens" in asked or not own:
            return
        short = self._short_tokens(named)
        if short:
            self._check_short(short, context)
            asked["context_limit_tokens"], taken["context_limit_tokens"] = short, "derived"
            note = f"it starts for the {short:,} tokens of the model's shorter rotary frequencies, of {own:,}"
            self.found.notes.append(f"no longest sequence in the command: {note}")
        elif context is None and slots > 1:
            asked["context_tokens"], taken["context_tokens"] = max(1, own // slots), "derived"
            self.found.notes.append(f"the model's own {own:,} tokens are shared by {slots} slots")
        elif self.start.engine in _STARTS_FOR_ITS_MODEL and context and context < own:
            asked["context_limit_tokens"], taken["context_limit_tokens"] = own, "derived"
            if not self.found.fitted:
                note = f"no longest sequence in the command: it starts for the model's own {own:,} tokens"
                self.found.notes.append(note)
