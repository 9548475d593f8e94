"""Images of containers: which engine one starts by itself, which release its tag says, which program it runs."""

from __future__ import annotations

import re
from typing import NamedTuple

_STARTS = (
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
_SCHEME = re.compile(r"(?:docker|oras|library|docker-daemon)://", re.IGNORECASE)
_FILE = re.compile(r"(?P<name>[\w.-]+?)(?:[_-](?P<tag>v?\d+\.\d+[\w.-]*|latest))?\.(?:sif|simg|sqsh)")


class Image(NamedTuple):
    """What an image says of itself; `engine` is None where it does not say which one it starts."""

    name: str
    engine: str | None
    program: str
    version: str | None


def image_of(word: str) -> Image:
    """Read an image's name, with a registry and a digest or not, or the file that one was pulled into."""
    bare = _SCHEME.sub("", word).partition("@sha256:")[0]
    last = bare.rpartition("/")[2]
    file = _FILE.fullmatch(last)
    if file:
        # Files are called by the last part of the image, or by all of it with an underscore for each slash.
        name, tag = file["name"].rpartition("_")[2], file["tag"] or ""
        bare = name
    else:
        name, _, tag = last.partition(":")
    engine, program = _started_by(name, tag)
    return Image(word, engine, program, _version(bare, tag))


def _started_by(name: str, tag: str) -> tuple[str | None, str]:
    for pattern, engine, program in _STARTS:
        # Tags of llama.cpp say which of its programs an image starts.
        if pattern.fullmatch(name) and not (engine == "llama.cpp" and not tag.startswith("server")):
            return engine, program
    return None, ""


def _version(image: str, tag: str) -> str | None:
    if not any(f"/{known}" in f"/{image}" for known in _VERSIONED):
        return None
    found = _VERSION.fullmatch(tag) or _BUILD.fullmatch(tag)
    return found[1] if found else None
