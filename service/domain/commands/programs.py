"""The engine that a command line starts, behind everything that stands before it: sudo, env, containers, launchers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from service.domain.commands.containers import CONTAINERS, KUBECTL, Container, container
from service.domain.commands.dialects import posix
from service.domain.commands.launchers import LAUNCHERS, PROMPTS, WRAPPERS, launched, unwrapped
from service.domain.commands.manifests import listed
from service.domain.commands.pins import pinned
from service.domain.commands.servers import COMMON, KNOWN, OF_OLLAMA, SERVERS, WITH_VERB, program_name, server
from service.domain.commands.variables import Scope, assignments, filled, named
from service.domain.commands.words import Command, Word, split
from service.domain.errors import Fault, NotSupported, ValidationError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from service.domain.commands.images import Image

_POINTER = "/command"
_DEEPEST = 4
_SHOWN = 60
_MOST_NAMED = 8
_RUN_IMAGES = CONTAINERS | KUBECTL

_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ash"})


@dataclass(slots=True)
class Started:
    """An engine as a command starts it: the words after its program, and the variables it runs with.

    `visible_gpus` is None where nothing limits which devices it sees, `unseen` what a shell would have put in there.
    `undated` is the image that has a release of its own and does not say which, `files` set variables that nobody here
    knows.
    """

    engine: str
    program: str
    words: list[Word]
    variables: dict[str, Word] = field(default_factory=dict)
    visible_gpus: int | None = None
    visible_by: str = ""
    unseen: str | None = None
    version: str | None = None
    version_by: str = "the image"
    undated: str | None = None
    files: tuple[str, ...] = ()


def started(text: str, engine: str | None) -> Started:
    """The one engine that a command line starts; `engine` reads flags that stand alone, as a container's args do.

    Raises ValidationError where there is no engine or more than one, NotSupported for programs that serve nothing.
    """
    pasted = posix(text)
    commands = listed(pasted.text) or split(pasted.text, windows=pasted.windows)
    found = list(_engines(commands, {}, 0))
    if len(found) > 1:
        names = ", ".join(each.program for each in found[:_MOST_NAMED])
        raise ValidationError(Fault(_POINTER, f"The command starts {len(found)} engines ({names}): give one of them."))
    if found:
        return _with_devices(found[0])
    unknown = _unknown_image(commands)
    if unknown is not None:
        start = _of_image(unknown, engine)
        start.files = tuple(file for words in commands for file in _files(words))
        return _with_devices(start)
    if engine is not None and len(commands) == 1:
        return _with_devices(_bare(commands[0], engine))
    raise ValidationError(_no_engine(commands))


def _unknown_image(commands: Sequence[Command]) -> Container | None:
    """A container whose image does not say which engine it starts."""
    for words in commands:
        at = next((at for at, word in enumerate(words) if program_name(word.text) in _RUN_IMAGES), None)
        found = None if at is None else container(program_name(words[at].text), words[at:])
        if found is not None and (not found.words or found.words[0].text.startswith("-")):
            return found
    return None


def _files(words: Sequence[Word]) -> tuple[str, ...]:
    """The files of variables that a container, or what runs the engine, is given."""
    pairs = ((word.text.partition("="), after) for word, after in zip(words, (*words[1:], Word("")), strict=True))
    found = (value if equals else after.text for (option, equals, value), after in pairs if option == "--env-file")
    return tuple(dict.fromkeys(filter(None, found)))


def _of_image(found: Container, engine: str | None) -> Started:
    """The engine of an unknown image, where the question says which."""
    if engine is None:
        name = found.image.name[:_SHOWN]
        detail = f"The image {name} does not say which engine it starts: give engine beside the command."
        raise ValidationError(Fault(_POINTER, detail))
    start = Started(engine, engine, found.words, named(found.variables, {}))
    _date(start, found.image)
    if found.gpus is not None:
        start.visible_gpus, start.visible_by = found.gpus, "--gpus"
    return start


def _bare(words: Command, engine: str) -> Started:
    """Flags alone, as a container of that engine gets them."""
    variables = dict(assignments(words))
    rest = list(words[len(variables) :])
    if not rest:
        raise ValidationError(Fault(_POINTER, "The command sets variables and starts nothing."))
    return Started(engine, engine, rest, variables)


def _no_engine(commands: Sequence[Command]) -> Fault:
    first = next((words[0].text for words in commands), "")
    stray = next((words[0].text for words in commands[1:] if words[0].text.startswith("-")), None)
    if first.startswith("-") and stray in {None, "-"}:
        detail = "The command begins with a flag: give engine beside it, or begin with the engine's program."
    elif stray == "-" or first.endswith(":"):
        detail = (
            "Of a manifest only command and args are read, as lists of texts or as one text each: give these alone."
        )
    elif stray is not None:
        detail = f"The line of {stray[:_SHOWN]} begins a command of its own: does a backslash end the line before it?"
    else:
        started_by = f"is started by {first[:_SHOWN]!r}" if first else "is started, by nothing but blanks and comments"
        detail = f"No engine {started_by}; these are read: {', '.join(KNOWN)}. {OF_OLLAMA}"
    return Fault(_POINTER, detail, nearest(first, (*WITH_VERB, *SERVERS, "trtllm-serve")) if first else ())


def _engines(commands: Sequence[Command], outer: Mapping[str, Word], depth: int) -> Iterator[Started]:
    """Every engine among the commands, each with what was set before it."""
    scope = Scope(outer)
    for index, words in enumerate(commands):
        if scope.takes(words):
            continue
        for each in _of_command(words, scope.variables, depth):
            _check_whole(commands[index + 1 :])
            _note_release(each, commands[:index], words, scope.variables)
            each.files += _files(words)
            yield each


def _of_command(words: Command, exported: Mapping[str, Word], depth: int) -> Iterator[Started]:
    """The engine of one simple command, or those of the script that a shell reads behind it."""
    script = words.document
    if script is None or depth >= _DEEPEST or not any(program_name(word.text) in _SHELLS for word in words):
        yield from _engine(words, exported, depth)
    else:
        yield from _engines(split(script), exported, depth + 1)


def _note_release(start: Started, before: Sequence[Command], words: Command, exported: Mapping[str, Word]) -> None:
    """The release that the script installs, where no image says one; what the host installs is in no container."""
    said = (word.text for command in (*before, words, exported.values()) for word in command)
    if start.version is not None or not any("==" in text or "@" in text for text in said):
        return
    own = words[: len(words) - len(start.words)] if words[len(words) - len(start.words) :] == start.words else words
    contained = any(program_name(word.text) in _RUN_IMAGES for word in own)
    earlier = () if contained else (word for command in before for word in command)
    pin = pinned(start.engine, filled((*earlier, *own), exported))
    if pin is not None:
        start.version, start.version_by = pin


def _check_whole(after: Sequence[Command]) -> None:
    """Refuse flags that a missing backslash cut off: they would be left out without a word."""
    stray = after[0][0].text if after else ""
    if stray.startswith("-"):
        detail = f"The line of {stray[:_SHOWN]} begins a command of its own: does a backslash end the line before it?"
        raise ValidationError(Fault(_POINTER, detail))


def _engine(words: Sequence[Word], exported: Mapping[str, Word], depth: int) -> Iterator[Started]:
    """The engine of one simple command; nothing where it starts none."""
    variables = dict(exported)
    rest = filled(words, exported) if exported else list(words)
    for _ in range(len(rest)):
        assigned = dict(assignments(rest))
        variables |= assigned
        rest = rest[len(assigned) :]
        if not rest:
            return
        name = program_name(rest[0].text)
        if name in WRAPPERS:
            rest = unwrapped(rest[1:], WRAPPERS[name])
        elif name in LAUNCHERS and not _runs_image(rest):
            rest = launched(rest[1:], _may_start, COMMON)
        elif rest[0].text in PROMPTS:
            rest = rest[1:]
        else:
            break
    if depth < _DEEPEST:
        yield from _at(rest, variables, depth)


def _runs_image(rest: Sequence[Word]) -> bool:
    """Whether it is `kubectl run`, which starts a container and nothing in one that is there."""
    own = [word.text for word in rest]
    return program_name(own[0]) in KUBECTL and "run" in own and "exec" not in own[: own.index("run")]


def _at(rest: list[Word], variables: dict[str, Word], depth: int) -> Iterator[Started]:
    if not rest:
        return
    name = program_name(rest[0].text)
    if name in _SHELLS:
        script = _script(rest)
        yield from _engines(split(script), variables, depth + 1) if script else ()
    elif name in _RUN_IMAGES:
        yield from _contained(rest, variables, depth)
    else:
        found = server(rest)
        if found:
            yield Started(found.engine, found.program, found.words, variables)


def _may_start(words: Sequence[Word]) -> bool:
    """Whether an engine's program, what runs one, or a shell with a script begins here."""
    name = program_name(words[0].text)
    # An environment may be called as an engine is: its program stands before its verb.
    if name in WITH_VERB and [word.text for word in words[1:2]] != [WITH_VERB[name][1]]:
        return False
    scripted = name in _SHELLS and _script(words) is not None
    return scripted or name in WRAPPERS or name in CONTAINERS or server(words) is not None


def _script(rest: Sequence[Word]) -> str | None:
    """The script of `sh -c SCRIPT`."""
    for at, word in enumerate(rest[1:], 1):
        if not word.text.startswith("-"):
            return None
        if "c" in word.text.lstrip("-") and not word.text.startswith("--"):
            return rest[at + 1].text if at + 1 < len(rest) else None
    return None


def _contained(rest: list[Word], variables: dict[str, Word], depth: int) -> Iterator[Started]:
    """The engine of a container, by its image or by the words after it."""
    found = container(program_name(rest[0].text), rest)
    if found is None:
        return
    # What the host shows to its own processes says nothing of a container, which gets devices by its options.
    within = {name: word for name, word in variables.items() if found.shares or name != "CUDA_VISIBLE_DEVICES"}
    within |= named(found.variables, variables)
    image = found.image
    inner = list(_engine(found.words, within, depth + 1))
    if not inner and image.engine is not None and not found.entered:
        inner = [Started(image.engine, image.program, found.words, within)]
    for each in inner:
        _date(each, image)
        if each.visible_gpus is None and found.gpus is not None:
            each.visible_gpus, each.visible_by = found.gpus, "--gpus"
        yield each


def _date(start: Started, image: Image) -> None:
    """The release that the image says, or that it says none; refused where it has no use for a GPU."""
    if image.on_the_host:
        detail = f"The image {image.name[:_SHOWN]} leaves everything on the host, so that there is nothing to quote."
        raise NotSupported(Fault(_POINTER, detail))
    start.version = start.version or image.version
    if image.undated:
        start.undated = start.undated or image.name


def _with_devices(start: Started) -> Started:
    """Note how many devices the variables let it see."""
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"):
        word = start.variables.get(name)
        if word is None or word.text == "all":
            continue
        if word.expanded:
            start.unseen = word.expanded[0]
            continue
        count = len({part.strip() for part in word.text.split(",") if part.strip()})
        if word.text in {"none", "void", "-1"}:
            count = 0
        if start.visible_gpus is None or count < start.visible_gpus:
            start.visible_gpus, start.visible_by = count, name
    return start
