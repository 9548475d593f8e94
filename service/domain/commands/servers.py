"""Programs that are engines: by their names, their modules and scripts of Python, and what follows them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from service.domain.commands.words import Word
from service.domain.errors import Fault, NotSupported, ValidationError

if TYPE_CHECKING:
    from collections.abc import Sequence

_POINTER = "/command"
_SHOWN = 60

_PYTHON = re.compile(r"python(?:\d(?:\.\d+)?)?t?|uv-python")
_TOOL = re.compile(r"(vllm|sglang)(?:\[[\w,-]*\])?(?:@|==).*", re.DOTALL)
"""A tool with its release, as uvx takes one."""
_MODULES = {
    "vllm.entrypoints.openai.api_server": ("vllm", "vllm.entrypoints.openai.api_server"),
    "vllm.entrypoints.api_server": ("vllm", "vllm.entrypoints.api_server"),
    "sglang.launch_server": ("sglang", "sglang.launch_server"),
    "sglang.srt.server": ("sglang", "sglang.srt.server"),
    "tensorrt_llm.commands.serve": ("tensorrt-llm", "trtllm-serve"),
    "lmdeploy": ("lmdeploy", "lmdeploy"),
}
SERVERS = {
    "llama-server": "llama.cpp",
    "llama-cli": "llama.cpp",
    "llama-completion": "llama.cpp",
    "server": "llama.cpp",
    "main": "llama.cpp",
    "text-generation-launcher": "tgi",
}
COMMON = frozenset({"server", "main"})
"""Programs of older releases whose names are also those of anything else."""
WITH_VERB = {"vllm": ("vllm", "serve"), "sglang": ("sglang", "serve"), "ollama": ("ollama", "serve")}
_TRTLLM_OTHERS = frozenset({"disaggregated", "disaggregated_mpi_worker", "mm_embedding_serve", "grpc"})
KNOWN = (
    *("vllm serve", "python -m vllm.entrypoints.openai.api_server", "python -m sglang.launch_server", "sglang serve"),
    *("trtllm-serve", "llama-server", "llama-cli"),
)
OF_OLLAMA = "Of ollama serve only the variables are read, to say what to ask engine llama.cpp, which it runs."


class Server(NamedTuple):
    """An engine's name, its program, and the words after that."""

    engine: str
    program: str
    words: list[Word]


def program_name(word: str) -> str:
    """The name of a program without its folder, and without the release that uvx is asked for."""
    tool = _TOOL.fullmatch(word)
    if tool:
        return tool[1]
    return word.replace("\\", "/").rpartition("/")[2].removesuffix(".exe").removesuffix(".py").casefold()


def server(rest: Sequence[Word]) -> Server | None:
    """The engine that the words start; None where the first of them is no engine's.

    Raises NotSupported for a program of an engine that serves nothing, ValidationError where a variable says whether
    it does.
    """
    name = program_name(rest[0].text)
    following = rest[1].text if len(rest) > 1 else ""
    if _PYTHON.fullmatch(name):
        return _module(rest)
    if name in WITH_VERB:
        return _with_verb(name, rest)
    if name == "trtllm-serve":
        if following in _TRTLLM_OTHERS:
            raise NotSupported(Fault(_POINTER, f"`trtllm-serve {following}` cannot be quoted; `serve` can."))
        return Server("tensorrt-llm", name, list(rest[2:] if following == "serve" else rest[1:]))
    if name == "lmdeploy":
        return Server("lmdeploy", name, list(rest[1:]))
    if name in SERVERS:
        return Server(SERVERS[name], name, list(rest[1:]))
    return None


def _with_verb(name: str, rest: Sequence[Word]) -> Server:
    """An engine whose program does other things too, by its verb."""
    engine, verb = WITH_VERB[name]
    following = rest[1] if len(rest) > 1 else Word("")
    if following.text == verb:
        return Server(engine, f"{name} {verb}", list(rest[2:]))
    if following.expanded:
        detail = f"{following.text[:_SHOWN]} is not known here: write what the shell would put in its place."
        raise ValidationError(Fault(_POINTER, detail))
    shown = f"{name} {following.text[:_SHOWN]}".strip()
    if engine == "ollama":
        detail = (
            f"`{shown}` serves nothing, and engine ollama cannot be quoted yet: ask for engine llama.cpp. {OF_OLLAMA}"
        )
        raise NotSupported(Fault(_POINTER, detail))
    raise NotSupported(Fault(_POINTER, f"`{shown}` serves nothing: give `{name} {verb}`."))


def _module(rest: Sequence[Word]) -> Server | None:
    """What `python -m MODULE`, or `python SCRIPT`, starts."""
    at = 1
    while at < len(rest) and rest[at].text.startswith("-") and rest[at].text != "-m":
        at += 2 if rest[at].text in {"-W", "-X"} else 1
    if at >= len(rest):
        return None
    if rest[at].text != "-m":
        return _script(rest[at:])
    module = rest[at + 1].text if at + 1 < len(rest) else ""
    found = _MODULES.get(module)
    if found is None and module in {"vllm.entrypoints.cli.main", "vllm", "sglang", "sglang.cli.main"}:
        return server([Word(module.partition(".")[0]), *rest[at + 2 :]])
    return Server(*found, list(rest[at + 2 :])) if found else None


def _script(rest: Sequence[Word]) -> Server | None:
    """An engine's module by its file, or its program by its path, which is a script of Python too."""
    path = rest[0].text.replace("\\", "/")
    if path.endswith(".py"):
        module = path.removesuffix(".py").replace("/", ".")
        found = next((row for name, row in _MODULES.items() if module.endswith(name)), None)
        return Server(*found, list(rest[1:])) if found else None
    return server(rest) if "/" in path and program_name(path) in {*WITH_VERB, "trtllm-serve"} else None
