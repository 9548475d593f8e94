"""`docker run` and its likes: what a container gets of its host, the image, and the words after it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from service.domain.commands.words import Word
from service.domain.errors import Fault, ValidationError

if TYPE_CHECKING:
    from collections.abc import Sequence

DOCKER = frozenset({"docker", "podman", "nerdctl"})

_RUNS = frozenset({"run", "create", "exec"})
_SWITCHES = frozenset(
    {
        *("--detach", "--interactive", "--tty", "--rm", "--init", "--privileged", "--read-only", "--no-healthcheck"),
        *("--publish-all", "--quiet", "--oom-kill-disable", "--sig-proxy", "--disable-content-trust", "--replace"),
    }
)
_JOINED = re.compile(r"-[acehlmpuvw].+", re.DOTALL)
"""A short option with its value in one word, such as -p8000:8000."""
_SHORT_SWITCHES = re.compile(r"-[ditPq]+")
_IMAGES = (
    (re.compile(r"vllm-openai[\w-]*"), "vllm", "vllm serve"),
    (re.compile(r"llama\.cpp"), "llama.cpp", "llama-server"),
    (re.compile(r"ollama"), "ollama", "ollama serve"),
    (re.compile(r"text-generation-inference"), "tgi", "text-generation-launcher"),
)
"""Images whose container starts the engine by itself: the last part of a name, without tag."""
_VERSIONED = ("vllm-openai", "sglang", "tensorrt-llm/release", "llama.cpp", "ollama")
"""Images whose tags are releases of the engine."""
_VERSION = re.compile(r"v?(\d+\.\d+(?:\.\d+)*(?:[._-]?(?:post|rc|dev)\d+)*)(?:[-_.+].*)?")
_BUILD = re.compile(r"(?:.*-)?(b\d{3,6})")


class Container(NamedTuple):
    """What a container runs; `engine` is None where its image does not say, `gpus` where it sees all of them."""

    image: str
    engine: str | None
    program: str
    version: str | None
    gpus: int | None
    variables: tuple[Word, ...]
    words: list[Word]


def container(rest: Sequence[Word]) -> Container | None:
    """Read `docker run [options] image [words]`; None for other commands of docker."""
    verb = next((at for at, word in enumerate(rest) if word.text in _RUNS), None)
    if verb is None:
        return None
    options, at = _options(rest, verb + 1)
    if at >= len(rest):
        raise ValidationError(Fault("/command", f"`{rest[0].text} {rest[verb].text}` names no image."))
    name, _, tag = rest[at].text.rpartition("/")[2].partition(":")
    words = list(rest[at + 1 :])
    engine, program = _started_by(name, tag)
    if name == "llama.cpp" and words and words[0].text in {"--server", "-s"}:
        engine, program, words = "llama.cpp", "llama-server", words[1:]
    entry = [Word(value.text) for option, value in options if option == "--entrypoint"]
    if entry:
        engine, words = None, [*entry, *words]
    variables = tuple(value for option, value in options if option in {"-e", "--env"})
    gpus = next((_gpus(value.text) for option, value in reversed(options) if option == "--gpus"), None)
    return Container(rest[at].text, engine, program, _version(rest[at].text, tag), gpus, variables, words)


def _options(rest: Sequence[Word], at: int) -> tuple[list[tuple[str, Word]], int]:
    found = []
    while at < len(rest) and rest[at].text.startswith("-"):
        option, equals, value = rest[at].text.partition("=")
        if equals and option.startswith("--"):
            found.append((option, Word(value, rest[at].expanded)))
        elif rest[at].text.startswith("-e") and len(rest[at].text) > len("-e"):
            found.append(("-e", Word(rest[at].text[2:].removeprefix("="), rest[at].expanded)))
        elif not (option in _SWITCHES or _SHORT_SWITCHES.fullmatch(option) or _JOINED.fullmatch(option)):
            at += 1
            found.append((option, rest[at] if at < len(rest) else Word("")))
        at += 1
    return found, at


def _started_by(name: str, tag: str) -> tuple[str | None, str]:
    for pattern, engine, program in _IMAGES:
        # Tags of llama.cpp say which of its programs an image starts.
        if pattern.fullmatch(name) and not (engine == "llama.cpp" and not tag.startswith("server")):
            return engine, program
    return None, ""


def _version(image: str, tag: str) -> str | None:
    if not any(f"/{known}" in f"/{image}" for known in _VERSIONED):
        return None
    found = _VERSION.fullmatch(tag) or _BUILD.fullmatch(tag)
    return found[1] if found else None


def _gpus(value: str) -> int | None:
    """Devices that `--gpus` names: `all`, a number, or `device=` with a list."""
    text = value.strip().strip("\"'")
    if text.startswith("device="):
        return len([part for part in text.removeprefix("device=").split(",") if part])
    if text.startswith("count="):
        text = text.removeprefix("count=")
    return int(text) if re.fullmatch(r"[0-9]{1,5}", text) else None
