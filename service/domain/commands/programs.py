"""The engine that a command line starts, behind everything that stands before it: sudo, env, containers, launchers."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from service.domain.commands.containers import DOCKER, Container, container
from service.domain.commands.pins import pinned
from service.domain.commands.words import Word, listed, split
from service.domain.errors import Fault, NotSupported, ValidationError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_POINTER = "/command"
_DEEPEST = 4
_SHOWN = 60

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=", re.ASCII)
_PYTHON = re.compile(r"python(?:\d(?:\.\d+)?)?|uv-python")
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ash"})


class Wrapper(NamedTuple):
    """A program that runs another: its options that take a value, and how many words of its own follow them."""

    valued: frozenset[str] = frozenset()
    own: int = 0


_NUMA = frozenset({"-N", "-m", "-C", "-i", "-p", "-P", "-w", "--cpunodebind", "--membind", "--physcpubind"})
_WRAPPERS = {
    "sudo": Wrapper(frozenset({"-u", "-g", "-h", "-p", "-C", "-r", "-t", "-D", "-T", "-U"})),
    "env": Wrapper(frozenset({"-u", "--unset", "-C", "--chdir"})),
    "exec": Wrapper(frozenset({"-a"})),
    "nohup": Wrapper(),
    "time": Wrapper(),
    "nice": Wrapper(frozenset({"-n"})),
    "ionice": Wrapper(frozenset({"-c", "-n"})),
    "numactl": Wrapper(_NUMA),
    "taskset": Wrapper(own=1),
    "timeout": Wrapper(frozenset({"-s", "-k"}), own=1),
    "stdbuf": Wrapper(frozenset({"-o", "-e", "-i"})),
    "setsid": Wrapper(),
    "tini": Wrapper(),
    "dumb-init": Wrapper(),
    "trtllm-llmapi-launch": Wrapper(),
    "poetry": Wrapper(own=1),
    "uvx": Wrapper(frozenset({"--with", "--from", "--python", "-p"})),
    "command": Wrapper(),
}
_PROMPTS = frozenset({"$", "%", ">", "!", "{", "then", "do", "else", "if", "while", "until"})
"""What may stand before a command without being one: a prompt that was copied too, and words of the shell itself."""
_LAUNCHERS = frozenset(
    {
        "srun",
        "mpirun",
        "mpiexec",
        "torchrun",
        "ray",
        "accelerate",
        "conda",
        "mamba",
        "micromamba",
        "uv",
        "kubectl",
        "oc",
    }
)
"""Programs with so many options that the engine is looked for among all their words."""

_MODULES = {
    "vllm.entrypoints.openai.api_server": ("vllm", "vllm.entrypoints.openai.api_server"),
    "vllm.entrypoints.api_server": ("vllm", "vllm.entrypoints.api_server"),
    "sglang.launch_server": ("sglang", "sglang.launch_server"),
    "sglang.srt.server": ("sglang", "sglang.srt.server"),
    "tensorrt_llm.commands.serve": ("tensorrt-llm", "trtllm-serve"),
    "lmdeploy": ("lmdeploy", "lmdeploy"),
}
_SERVERS = {
    "llama-server": "llama.cpp",
    "llama-cli": "llama.cpp",
    "llama-completion": "llama.cpp",
    "server": "llama.cpp",
    "main": "llama.cpp",
    "text-generation-launcher": "tgi",
}
_COMMON = frozenset({"server", "main"})
"""Programs of older releases whose names are also those of anything else."""
_WITH_VERB = {"vllm": ("vllm", "serve"), "sglang": ("sglang", "serve"), "ollama": ("ollama", "serve")}
_TRTLLM_OTHERS = frozenset({"disaggregated", "disaggregated_mpi_worker", "mm_embedding_serve", "grpc"})
_KNOWN = (
    *("vllm serve", "python -m vllm.entrypoints.openai.api_server", "python -m sglang.launch_server", "sglang serve"),
    *("trtllm-serve", "llama-server", "llama-cli", "ollama serve"),
)


@dataclass(slots=True)
class Started:
    """An engine as a command starts it: the words after its program, and the variables it runs with.

    `visible_gpus` is None where nothing limits which devices it sees, `unseen` what a shell would have put in there.
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


def started(text: str, engine: str | None) -> Started:
    """The one engine that a command line starts; `engine` reads flags that stand alone, as a container's args do.

    Raises ValidationError where there is no engine or more than one, NotSupported for programs that serve nothing.
    """
    commands = listed(text) or split(text)
    found = list(_engines(commands, {}, 0))
    if len(found) > 1:
        names = ", ".join(each.program for each in found)
        raise ValidationError(Fault(_POINTER, f"The command starts {len(found)} engines ({names}): give one of them."))
    if found:
        return _with_devices(found[0])
    unknown = _unknown_image(commands)
    if unknown is not None:
        return _with_devices(_of_image(*unknown, engine))
    if engine is not None and len(commands) == 1:
        return _with_devices(_bare(commands[0], engine))
    raise ValidationError(_no_engine(commands))


def _unknown_image(commands: list[list[Word]]) -> tuple[str, Container] | None:
    """A container whose image does not say which engine it starts, with the program that runs it."""
    for words in commands:
        at = next((at for at, word in enumerate(words) if program_name(word.text) in DOCKER), None)
        found = None if at is None else container(words[at:])
        if found is not None and (not found.words or found.words[0].text.startswith("-")):
            return found.image, found
    return None


def _of_image(image: str, found: Container, engine: str | None) -> Started:
    """The engine of an unknown image, where the question says which."""
    if engine is None:
        detail = f"The image {image[:_SHOWN]} does not say which engine it starts: give engine beside the command."
        raise ValidationError(Fault(_POINTER, detail))
    start = Started(engine, engine, found.words, dict(_assignments(found.variables)))
    if found.gpus is not None:
        start.visible_gpus, start.visible_by = found.gpus, "--gpus"
    return start


def _bare(words: list[Word], engine: str) -> Started:
    """Flags alone, as a container of that engine gets them."""
    variables = dict(_assignments(words))
    rest = words[len(variables) :]
    if not rest:
        raise ValidationError(Fault(_POINTER, "The command sets variables and starts nothing."))
    return Started(engine, engine, rest, variables)


def _no_engine(commands: list[list[Word]]) -> Fault:
    first = next((words[0].text for words in commands), "")
    stray = next((words[0].text for words in commands[1:] if words[0].text.startswith("-")), None)
    if first.startswith("-"):
        detail = "The command begins with a flag: give engine beside it, or begin with the engine's program."
    elif stray is not None:
        detail = f"The line of {stray[:_SHOWN]} begins a command of its own: does a backslash end the line before it?"
    else:
        started_by = f"is started by {first[:_SHOWN]!r}" if first else "is started, by nothing but blanks and comments"
        detail = f"No engine {started_by}; these are read: {', '.join(_KNOWN)}."
    return Fault(_POINTER, detail, nearest(first, (*_WITH_VERB, *_SERVERS, "trtllm-serve")) if first else ())


def _engines(commands: list[list[Word]], outer: Mapping[str, Word], depth: int) -> Iterator[Started]:
    """Every engine among the commands, each with what was exported before it."""
    exported = dict(outer)
    for index, words in enumerate(commands):
        own = words[1:] if words[0].text in {"export", "declare", "set"} else words
        assigned = dict(_assignments(own))
        if assigned and len(assigned) == len(own):
            exported |= {name: _filled(word, exported) for name, word in assigned.items()}
            continue
        for each in _engine(words, exported, depth):
            _check_whole(commands[index + 1 :])
            _note_release(each, commands[:index], words, exported)
            yield each


def _note_release(start: Started, before: list[list[Word]], words: list[Word], exported: Mapping[str, Word]) -> None:
    """The release that the script installs, where no image says one; what the host installs is in no container."""
    said = (word.text for command in (*before, words, exported.values()) for word in command)
    if start.version is not None or not any("==" in text for text in said):
        return
    own = words[: len(words) - len(start.words)] if words[len(words) - len(start.words) :] == start.words else words
    contained = any(program_name(word.text) in DOCKER for word in own)
    earlier = () if contained else (word for command in before for word in command)
    pin = pinned(start.engine, (_filled(word, exported) for word in (*earlier, *own)))
    if pin is not None:
        start.version, start.version_by = pin


def _check_whole(after: list[list[Word]]) -> None:
    """Refuse flags that a missing backslash cut off: they would be left out without a word."""
    stray = after[0][0].text if after else ""
    if stray.startswith("-"):
        detail = f"The line of {stray[:_SHOWN]} begins a command of its own: does a backslash end the line before it?"
        raise ValidationError(Fault(_POINTER, detail))


def _filled(word: Word, variables: Mapping[str, Word]) -> Word:
    return word.known({name: value.text for name, value in variables.items() if not value.expanded})


def _engine(words: Sequence[Word], exported: Mapping[str, Word], depth: int) -> Iterator[Started]:
    """The engine of one simple command; nothing where it starts none."""
    variables = dict(exported)
    rest = [_filled(word, exported) for word in words] if exported else list(words)
    for _ in range(len(rest)):
        assigned = dict(_assignments(rest))
        variables |= assigned
        rest = rest[len(assigned) :]
        if not rest:
            return
        name = program_name(rest[0].text)
        if name in _WRAPPERS:
            rest = _unwrapped(rest[1:], _WRAPPERS[name])
        elif name in _LAUNCHERS:
            rest = _launched(rest[1:])
        elif rest[0].text in _PROMPTS:
            rest = rest[1:]
        else:
            break
    if depth < _DEEPEST:
        yield from _at(rest, variables, depth)


def _at(rest: list[Word], variables: dict[str, Word], depth: int) -> Iterator[Started]:
    if not rest:
        return
    name = program_name(rest[0].text)
    if name in _SHELLS:
        script = _script(rest)
        yield from _engines(split(script), variables, depth + 1) if script else ()
    elif name in DOCKER:
        yield from _contained(rest, variables, depth)
    else:
        found = _program(rest)
        if found:
            engine, program, after = found
            yield Started(engine, program, after, variables)


def _assignments(words: Sequence[Word]) -> Iterator[tuple[str, Word]]:
    for word in words:
        found = _ASSIGNMENT.match(word.text)
        if not found:
            return
        yield found[1], Word(word.text[found.end() :], word.expanded)


def program_name(word: str) -> str:
    """The name of a program without its folder."""
    return word.replace("\\", "/").rpartition("/")[2].removesuffix(".exe").removesuffix(".py").casefold()


def _unwrapped(words: list[Word], wrapper: Wrapper) -> list[Word]:
    at = 0
    while at < len(words) and words[at].text.startswith("-"):
        text = words[at].text
        at += 1
        if text == "--":
            break
        at += text in wrapper.valued
    rest = words[at:]
    return rest[wrapper.own :] if wrapper.own else rest


def _launched(words: list[Word]) -> list[Word]:
    """What follows a launcher's own options: from the first word that is a program or a shell with a script."""
    # `kubectl exec` runs a program as exec does, in a pod that it names first.
    words = words[1:] if words and words[0].text == "exec" else words
    starts = [at for at in range(len(words)) if _may_start(words[at:])]
    # A pod, a container or an environment may have such a name too.
    named = next((at for at in starts if words[at].text not in _COMMON), None)
    return words[named if named is not None else starts[0] :] if starts else []


def _may_start(words: list[Word]) -> bool:
    """Whether an engine's program, what runs one, or a shell with a script begins here."""
    name = program_name(words[0].text)
    # An environment may be called as an engine is: its program stands before its verb.
    if name in _WITH_VERB and [word.text for word in words[1:2]] != [_WITH_VERB[name][1]]:
        return False
    scripted = name in _SHELLS and _script(words) is not None
    return scripted or name in _WRAPPERS or _program(words) is not None


def _script(rest: list[Word]) -> str | None:
    """The script of `sh -c SCRIPT`."""
    for at, word in enumerate(rest[1:], 1):
        if not word.text.startswith("-"):
            return None
        if "c" in word.text.lstrip("-") and not word.text.startswith("--"):
            return rest[at + 1].text if at + 1 < len(rest) else None
    return None


def _contained(rest: list[Word], variables: dict[str, Word], depth: int) -> Iterator[Started]:
    """The engine of a container, by its image or by the words after it."""
    found = container(rest)
    if found is None:
        return
    # What the host shows to its own processes says nothing of a container, which gets devices by its options.
    within = {name: word for name, word in variables.items() if name != "CUDA_VISIBLE_DEVICES"}
    within |= dict(_assignments(found.variables))
    inner = list(_engine(found.words, within, depth + 1))
    if not inner and found.engine is not None:
        inner = [Started(found.engine, found.program, found.words, within)]
    for each in inner:
        each.version = each.version or found.version
        if each.visible_gpus is None and found.gpus is not None:
            each.visible_gpus, each.visible_by = found.gpus, "--gpus"
        yield each


def _program(rest: list[Word]) -> tuple[str, str, list[Word]] | None:
    """Engine, program and the words after it; None where the first word is no engine's."""
    name = program_name(rest[0].text)
    following = rest[1].text if len(rest) > 1 else ""
    if _PYTHON.fullmatch(name):
        return _module(rest)
    if name in _WITH_VERB:
        engine, verb = _WITH_VERB[name]
        if following != verb:
            raise NotSupported(
                Fault(_POINTER, f"`{f'{name} {following[:_SHOWN]}'.strip()}` serves nothing: give `{name} {verb}`.")
            )
        return engine, f"{name} {verb}", rest[2:]
    if name == "trtllm-serve":
        if following in _TRTLLM_OTHERS:
            raise NotSupported(Fault(_POINTER, f"`trtllm-serve {following}` cannot be quoted; `serve` can."))
        return "tensorrt-llm", name, rest[2:] if following == "serve" else rest[1:]
    if name == "lmdeploy":
        return "lmdeploy", name, rest[1:]
    if name in _SERVERS:
        return _SERVERS[name], name, rest[1:]
    return None


def _module(rest: list[Word]) -> tuple[str, str, list[Word]] | None:
    """What `python -m MODULE` starts."""
    at = 1
    while at < len(rest) and rest[at].text.startswith("-") and rest[at].text != "-m":
        at += 2 if rest[at].text in {"-W", "-X"} else 1
    if at + 1 >= len(rest) or rest[at].text != "-m":
        return None
    module = rest[at + 1].text
    found = _MODULES.get(module)
    if found is None and module in {"vllm.entrypoints.cli.main", "vllm", "sglang", "sglang.cli.main"}:
        return _program([Word(module.partition(".")[0]), *rest[at + 2 :]])
    return (*found, rest[at + 2 :]) if found else None


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
