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
# Tags of the newest release, whatever it was built for; those of llama.cpp name a program and a backend otherwise.
_NEWEST = re.compile(r"(?:latest(?:[-_].*)?)?|(?:server|full|light)(?:-[a-z]+\d*)?")
_ON_THE_HOST = (
    re.compile(r"(?:.*/)?llama\.cpp:(?:server|full|light)(?:-s390x)?(?:-b\d+)?"),
    re.compile(r"(?:.*/)?vllm-openai-cpu(?::.*)?"),
)
"""Images that are built without a GPU's backend."""
_FILE = re.compile(r"(?P<name>[\w.-]+?)(?:[_-](?P<tag>v?\d+\.\d+[\w.-]*|latest))?\.(?:sif|simg|sqsh)")


class Image(NamedTuple):
    """What an image says of itself; `engine` is None where it does not say which one it starts.

    `undated` is whether it has a release of its own that it does not say: neither is the newest one meant. What starts
    in an image `on_the_host` has no GPU.
    """

    name: str
    engine: str | None
    program: str
    version: str | None
    undated: bool = False
    on_the_host: bool = False


def image_of(word: str) -> Image:
    """Read an image's name, with a registry and a digest or not, or the file that one was pulled into."""
    bare, _, digest = _SCHEME.sub("", word).partition("@sha256:")
    on_the_host = any(pattern.fullmatch(bare) for pattern in _ON_THE_HOST)
    last = bare.rpartition("/")[2]
    file = _FILE.fullmatch(last)
    if file:
        # Files are called by the last part of the image, or by all of it with an underscore for each slash.
        name, tag = file["name"].rpartition("_")[2], file["tag"] or ""
        bare = name
    else:
        name, _, tag = last.partition(":")
    engine, program = _started_by(name, tag)
    version = _version(bare, tag)
    undated = version is None and (bool(digest) or not _NEWEST.fullmatch(tag))
    return Image(word, engine, program, version, undated, on_the_host)


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
