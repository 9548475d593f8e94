"""Weight modules of the encoders that feed a decoder: pictures, sounds, text. They are counted and keep no cache."""

from __future__ import annotations

from dataclasses import dataclass, field
from sys import intern

from service.domain.architecture import Module, ModuleKind, Place, Shard
from service.domain.configs.fields import MAX_LAYERS, Fields


@dataclass(slots=True)
class Tower:
    """Collects an encoder's modules, all on the first pipeline stage; `count` is how many layers hold the same."""

    kind: ModuleKind
    name: str
    modules: list[Module] = field(default_factory=list)

    def matrix(self, name: str, rows: int, columns: int, count: int = 1, shard: Shard = Shard.REPLICATED) -> None:
        """A [rows, columns] matrix in each of `count` layers."""
        if count and rows and columns:
            made = Module(intern(f"{self.name}.{name}"), self.kind, rows, columns, (), count, count, shard, Place.FIRST)
            self.modules.append(made)

    def vector(self, name: str, size: int, count: int = 1) -> None:
        """A vector in each of `count` layers."""
        self.matrix(name, size, 1, count)

    def linear(self, name: str, rows: int, columns: int, count: int = 1, *, bias: bool = True) -> None:
        """A projection, divided by its rows under tensor parallelism, and its bias."""
        self.matrix(name, rows, columns, count, Shard.ROWS)
        if bias:
            self.vector(f"{name}.bias", rows, count)

    def norm(self, name: str, size: int, count: int = 1, *, bias: bool = True) -> None:
        """A LayerNorm, or an RMSNorm where it has no bias."""
        self.vector(name, size, (2 if bias else 1) * count)

    def attention(self, hidden: int, count: int, *, bias: bool = True, inner: int | None = None) -> None:
        """Query, key, value and output projections of all heads."""
        width = inner or hidden
        self.linear("attention.qkv", 3 * width, hidden, count, bias=bias)
        self.linear("attention.out", hidden, width, count, bias=bias)

    def mlp(self, hidden: int, width: int, count: int, *, bias: bool = True) -> None:
        """Up and down projections."""
        self.linear("mlp.up", width, hidden, count, bias=bias)
        self.linear("mlp.down", hidden, width, count, bias=bias)

    def gated_mlp(self, hidden: int, width: int, count: int, *, bias: bool = True) -> None:
        """Gate, up and down projections."""
        self.linear("mlp.gate_up", 2 * width, hidden, count, bias=bias)
        self.linear("mlp.down", hidden, width, count, bias=bias)


def depth(fields: Fields, *names: str) -> int:
    """Layers of an encoder; none is possible."""
    return fields.integer(*names, least=0, most=MAX_LAYERS)


def side(fields: Fields, name: str) -> tuple[int, int]:
    """Height and width of a picture or a patch, given as one number or two."""
    value = fields.get(name)
    if isinstance(value, list | tuple):
        pair = fields.integers(name, least=1)
        if len(pair) != 2:  # noqa: PLR2004  # height and width
            raise fields.refuse(name, f"{name} must be one number or two.")
        return pair[0], pair[1]
    size = fields.integer(name)
    return size, size


def area(fields: Fields, name: str) -> int:
    """Points of a patch."""
    height, width = side(fields, name)
    return height * width


def patches(fields: Fields, image: str = "image_size", patch: str = "patch_size") -> int:
    """Patches of one picture; refuses a picture smaller than a patch."""
    (height, width), (tall, wide) = side(fields, image), side(fields, patch)
    count = (height // tall) * (width // wide)
    if not count:
        raise fields.refuse(patch, f"A picture of {height} x {width} holds no patch of {tall} x {wide}.")
    return count
