"""`matmul`: floating-point operations a second of matrix products by type, over shapes; random data.

Zeros draw less power and so run at higher clocks; the data is normally distributed. B stands transposed, as linear
layers have it. Both the best shape and the median are told.
"""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Iterator, Mapping
from statistics import median
from typing import Any

from kvquote_probe.commands import Say
from kvquote_probe.measure.device import Device, opened
from kvquote_probe.measure.setting import Bench, add_effort_arguments, effort_of, whole_number
from kvquote_probe.measure.timing import Effort, Timing, Watch, interleaved
from kvquote_probe.readings import Reading

_TYPES = ("bf16", "fp16", "fp32", "fp8", "int8")
_SHAPES = (
    *((size, size, size) for size in (4096, 6144, 8192, 12288, 16384)),
    *((4096, 14336, 4096), (8192, 28672, 8192), (2048, 8192, 8192)),
)
"""Squares, and projections of models with 4,096 and 8,192 wide layers, as [m, k] x [k, n]."""

Shape = tuple[int, int, int]


def add_arguments(parser: ArgumentParser) -> None:
    """Types and shapes."""
    add_effort_arguments(parser)
    parser.add_argument("--dtypes", type=_words, default=None, metavar="NAMES", help=f"of {','.join(_TYPES)}")
    parser.add_argument(
        "--shapes", type=_shapes, default=None, metavar="MxNxK,...", help="a sweep of large ones unless said"
    )


def plan(args: Namespace) -> list[str]:
    """What will be multiplied."""
    shapes, types = args.shapes or _SHAPES, args.dtypes or _TYPES
    return [f"multiply {len(shapes)} shapes in {', '.join(types)} where the device can, {args.samples} times each"]


def measure(args: Namespace, say: Say, bench: Bench) -> Iterator[Reading]:
    """A row for each type that the device multiplies in."""
    shapes = args.shapes or (_SHAPES if not bench.on_cpu else ((512, 512, 512), (1024, 1024, 1024)))
    for name in args.dtypes or (_TYPES if not bench.on_cpu else _TYPES[:3]):
        told = {"dtype": name, "shapes": shapes, "effort": effort_of(args)}
        call = "kvquote_probe.measure.matmul:multiply"
        found = bench.nursery.run(call, {**bench.arguments, **told}, say, args.seconds + 300)
        if found is None:
            say(f"{name}: not on this device with this torch")
            continue
        say(f"{name}: {found['values']['flops_per_second'] / 1e12:,.2f} TFLOPS at best")
        yield bench.reading("matmul_rate", found["values"], samples=found["samples"])


def multiply(arguments: Mapping[str, Any], say: Say) -> dict[str, Any] | None:  # noqa: ARG001  # as all experiments
    """The experiment: the row of one type; None where the device cannot multiply in it."""
    import torch

    device = opened(arguments)
    watch = Watch(device, shared=bool(arguments.get("shared")))
    works: dict[Shape, Callable[[], Any]] = {}
    with torch.inference_mode():
        for m, n, k in arguments["shapes"]:
            product = _product(device, arguments["dtype"], (m, n, k))
            if product is not None:
                works[m, n, k] = product
        if not works:
            return None
        timings = interleaved(device, works, Effort(**arguments["effort"]))
    return _row(arguments["dtype"], timings, watch.end())


def _product(device: Device, name: str, shape: Shape) -> Callable[[], Any] | None:
    """One multiplication; None where its matrices find no room or there are no kernels for it."""
    try:
        product = _PRODUCTS[name](device.place, *shape)
        product()
        device.synchronize()
    except (RuntimeError, AttributeError, TypeError):
        # Missing kernels are told in many words: by architecture, by shape, by build; so is memory that is short.
        return None
    return product


def _plain(torch_name: str) -> Callable[..., Callable[[], Any]]:
    def made(place: str, m: int, n: int, k: int) -> Callable[[], Any]:
        import torch

        kind = getattr(torch, torch_name)
        left, right = torch.randn(m, k, device=place).to(kind), torch.randn(n, k, device=place).to(kind)
        out = torch.empty(m, n, device=place, dtype=kind)
        return lambda: torch.mm(left, right.t(), out=out)

    return made


def _fp8(place: str, m: int, n: int, k: int) -> Callable[[], Any]:
    import torch

    if place == "cpu":
        raise RuntimeError("The CPU multiplies in fp8 slower than in anything else.")
    # AMD's first fp8 cards have a type of their own, without a negative zero.
    named = torch.version.hip and "gfx94" in getattr(torch.cuda.get_device_properties(place), "gcnArchName", "")
    kind = torch.float8_e4m3fnuz if named else torch.float8_e4m3fn
    left, right = torch.randn(m, k, device=place).to(kind), torch.randn(n, k, device=place).to(kind)
    one = torch.ones((), device=place)
    multiply = torch._scaled_mm  # noqa: SLF001  # has no public name yet
    return lambda: multiply(left, right.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)


def _int8(place: str, m: int, n: int, k: int) -> Callable[[], Any]:
    import torch

    left = torch.randint(-128, 127, (m, k), device=place, dtype=torch.int8)
    right = torch.randint(-128, 127, (n, k), device=place, dtype=torch.int8)
    multiply = torch._int_mm  # noqa: SLF001  # has no public name yet
    return lambda: multiply(left, right.t())


_PRODUCTS: Mapping[str, Callable[..., Callable[[], Any]]] = {
    "bf16": _plain("bfloat16"),
    "fp16": _plain("float16"),
    "fp32": _plain("float32"),
    "fp8": _fp8,
    "int8": _int8,
}


def _row(name: str, timings: Mapping[Shape, Timing], watched: Mapping[str, Any]) -> dict[str, Any]:
    rates = {shape: _flops(shape) / timing.seconds for shape, timing in timings.items()}
    best = max(rates, key=lambda shape: rates[shape])
    values = {
        "flops_per_second": rates[best],
        "dtype": name,
        **dict(zip("mnk", best, strict=True)),
        "median_flops_per_second": median(rates.values()),
        "shapes": [[*shape, rate] for shape, rate in rates.items()],
        **timings[best].told(),
        **watched,
    }
    return {"values": values, "samples": [_flops(best) / seconds for seconds in timings[best].samples]}


def _flops(shape: Shape) -> int:
    return 2 * shape[0] * shape[1] * shape[2]


def _words(text: str) -> list[str]:
    found = text.split(",")
    unknown = sorted(set(found) - set(_TYPES))
    if unknown:
        raise ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(_TYPES)}")
    return found


def _shapes(text: str) -> list[Shape]:
    return [_shape(part) for part in text.split(",")]


def _shape(text: str) -> Shape:
    sizes = [whole_number(size) for size in text.split("x")]
    if len(sizes) != 3:  # noqa: PLR2004 - two matrices and what they share
        raise ArgumentTypeError(f"{text!r} is no shape: that is three whole numbers, such as 4096x4096x4096")
    return sizes[0], sizes[1], sizes[2]
