"""The files under `static/` that are served: a closed list, so that no path can lead out of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from pathlib import Path

STATIC = Path(__file__).with_name("static")
# Said by hand: what the system's own table says differs from machine to machine, and `nosniff` lets nothing pass.
CONTENT_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}
# A vendored file has its version in its path; the same address never holds anything else.
FOR_EVER = "public, max-age=31536000, immutable"
REVALIDATE = "public, max-age=0, must-revalidate"


@dataclass(frozen=True, slots=True)
class Asset:
    """One file, and what is said about it. `tag` depends on its bytes alone, so all copies of the service agree."""

    path: Path
    content_type: str
    tag: str
    cache_control: str


@cache
def served() -> Mapping[str, Asset]:
    """Each file by its path below `/static/`. Read once, when the first is asked for."""
    paths = (path for path in STATIC.rglob("*") if path.suffix in CONTENT_TYPES)
    return {path.relative_to(STATIC).as_posix(): _asset(path) for path in paths}


def tag(content: bytes) -> str:
    """A strong ETag's value, without its quotes."""
    return blake2b(content, digest_size=16).hexdigest()


def _asset(path: Path) -> Asset:
    vendored = path.is_relative_to(STATIC / "vendor")
    lifetime = FOR_EVER if vendored else REVALIDATE
    return Asset(path, CONTENT_TYPES[path.suffix], tag(path.read_bytes()), lifetime)
