"""Experiments for tests of the nursery: they need no torch."""

import os
import signal
import time
from collections.abc import Callable, Mapping
from typing import Any

from kvquote_probe.commands import MeasureError

Arguments = Mapping[str, Any]
Say = Callable[[str], None]


def tell(arguments: Arguments, say: Say) -> dict[str, Any]:
    say("begun")
    return {"process": os.getpid(), **arguments}


def long_answer(arguments: Arguments, _: Say) -> str:
    return "x" * int(arguments["characters"])


def refuse(_: Arguments, __: Say) -> None:
    raise MeasureError("Give it another card.")


def fail(_: Arguments, __: Say) -> None:
    raise ZeroDivisionError


def die(_: Arguments, __: Say) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def linger(_: Arguments, say: Say) -> None:
    say(str(os.getpid()))
    time.sleep(600)


def gathered_share(arguments: Arguments, _: Say) -> float:
    """What gathering all pages of a buffer sums up to, against the buffer's own sum."""
    import torch

    from kvquote_probe.measure.bandwidth import _gatherers

    buffer = torch.rand(arguments["elements"]) + 1
    (gather,) = _gatherers([buffer], arguments["page_bytes"]).values()
    return float(gather().double().sum() / buffer.double().sum())


def attention_against_reference(arguments: Arguments, _: Say) -> dict[str, float]:
    """The largest differences between a layer's attention and plain sums over the same numbers, head by head."""
    import torch

    from kvquote_probe.measure.blocks import LayerPlan
    from kvquote_probe.measure.layer import Layer

    plan = LayerPlan.from_arguments(arguments["plan"])
    torch.manual_seed(0)
    layer = Layer(plan, torch.float32, "cpu", cache_elements=4096, experts_kept=plan.feed_forward.experts)
    layer.cache.normal_()
    with torch.inference_mode():
        return {"decode": _decode_difference(layer, plan), "prefill": _prefill_difference(plan)}


def _decode_difference(layer: Any, plan: Any) -> float:  # noqa: ANN401
    import torch

    a = plan.attention
    parts = tuple(torch.randn(2, width) for width in layer._split)
    if a.latent_width:
        got = layer._decode_latent(parts, 5)
        width = a.latent_width + a.rope_width
        vectors = layer.cache[: 2 * 5 * width].view(2, 5, width)
        plain = torch.einsum("stc,hnc->shtn", vectors[..., : a.latent_width], layer._expand_keys)
        rope = vectors[..., a.latent_width :].unsqueeze(1).expand(-1, a.heads, -1, -1)
        keys, values = (
            torch.cat((plain, rope), -1),
            torch.einsum("stc,hvc->shtv", vectors[..., : a.latent_width], layer._expand_values),
        )
    else:
        got = layer._decode_grouped(parts, 5)
        sizes = [2 * a.kv_heads * 5 * width for width in (a.key_width, a.value_width)]
        flat = layer.cache[: sum(sizes)].split(sizes)
        keys = flat[0].view(2, a.kv_heads, 5, a.key_width).repeat_interleave(a.heads // a.kv_heads, 1)
        values = flat[1].view(2, a.kv_heads, 5, a.value_width).repeat_interleave(a.heads // a.kv_heads, 1)
    query = layer._queries(parts).view(2, a.heads, 1, a.key_width)
    shares = (query @ keys.transpose(-1, -2) * a.key_width**-0.5).softmax(-1)
    return float((got - (shares @ values).reshape(2, -1)).abs().max())


def _prefill_difference(plan: Any) -> float:  # noqa: ANN401
    import torch

    from kvquote_probe.measure.layer import _causal

    a, tokens = plan.attention, 11
    query = torch.randn(2, a.heads, tokens, a.key_width)
    kv_heads = a.heads if a.latent_width else a.kv_heads
    keys, values = torch.randn(2, kv_heads, tokens, a.key_width), torch.randn(2, kv_heads, tokens, a.value_width)
    got = _causal(query, keys, values, a)
    at = torch.arange(tokens)
    seen = at.unsqueeze(0) <= at.unsqueeze(1)
    if a.kind == "sliding":
        seen &= at.unsqueeze(1) - at.unsqueeze(0) < a.window_tokens
    if a.kind == "chunked":
        seen &= at.unsqueeze(1) // a.window_tokens == at.unsqueeze(0) // a.window_tokens
    assert int(seen.sum()) == a.pairs(tokens)
    group = a.heads // kv_heads
    scores = query @ keys.repeat_interleave(group, 1).transpose(-1, -2) * a.key_width**-0.5
    shares = scores.masked_fill(~seen, -torch.inf).softmax(-1)
    return float((got - shares @ values.repeat_interleave(group, 1)).abs().max())


def layer_weights(arguments: Arguments, _: Say) -> int:
    """Elements of all matrices of a layer."""
    import torch

    from kvquote_probe.measure.blocks import LayerPlan
    from kvquote_probe.measure.layer import Layer

    plan = LayerPlan.from_arguments(arguments["plan"])
    layer = Layer(plan, torch.float32, "cpu", cache_elements=0, experts_kept=plan.feed_forward.experts)
    tensors = [value for value in vars(layer).values() if isinstance(value, torch.Tensor)]
    return sum(int(tensor.numel()) for tensor in tensors) - int(layer._norms.numel())


def routed_against_reference(arguments: Arguments, _: Say) -> float:
    """The largest difference between the routed part and one expert after the other, padding left out."""
    import torch

    from kvquote_probe.measure.blocks import LayerPlan
    from kvquote_probe.measure.layer import Layer, spread

    plan = LayerPlan.from_arguments(arguments["plan"])
    drawn = spread(plan.feed_forward, arguments["tokens"])
    layer = Layer(plan, torch.float32, "cpu", cache_elements=0, experts_kept=drawn.touched)
    flat = torch.randn(arguments["tokens"], plan.hidden_size)
    flat[0] = 0  # rows are filled up with the first token
    with torch.inference_mode():
        got = layer._routed(flat, torch.tensor(drawn.tokens))
        shares = (flat @ layer._router.t()).softmax(-1).topk(plan.feed_forward.active, -1).values.sum(-1, keepdim=True)
        wanted = torch.zeros_like(flat)
        for expert, row in enumerate(drawn.tokens):
            for token in set(row):
                up = layer._active(flat[token] @ layer._experts_up[expert].t())
                wanted[token] += up @ layer._experts_down[expert].t()
        return float((got - wanted * shares).abs().max())


def card_told(arguments: Arguments, _: Say) -> dict[str, Any]:
    """What is told of a card where torch's own functions give planted answers."""
    from types import SimpleNamespace
    from unittest import mock

    import torch

    from kvquote_probe.measure.device import Cuda
    from kvquote_probe.measure.trial import _cap

    major, minor = arguments["capability"]
    properties = SimpleNamespace(name=arguments["name"], major=major, minor=minor, L2_cache_size=50 << 20, uuid="1-2")
    events = [SimpleNamespace(record=lambda: None, synchronize=lambda: None, elapsed_time=lambda _: 250.0)] * 2
    planted: dict[str, Any] = {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "set_device": lambda _: None,
        "get_device_properties": lambda _: properties,
        "mem_get_info": lambda _: (72 * GIB, 80 * GIB),
        "synchronize": lambda *_: None,
        "memory_stats": lambda _: {f"{name}_bytes.all.current": at + 1 for at, name in enumerate(_COUNTED)},
        "Event": mock.Mock(side_effect=events),
        "set_per_process_memory_fraction": mock.Mock(),
    }
    with mock.patch.multiple(torch.cuda, **planted):
        device = Cuda("cuda:0")
        _cap(device, {"usable_bytes": 40 * GIB})
        return {
            "gpu": device.gpu(),
            "held_bytes": device.held_bytes(),
            "counters": device.counters(),
            "seconds": device.seconds(lambda: None),
            "cap": torch.cuda.set_per_process_memory_fraction.call_args.args[0],
        }


GIB = 1 << 30
_COUNTED = ("requested", "allocated", "reserved")
