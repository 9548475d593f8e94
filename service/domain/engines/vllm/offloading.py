"""Weights that the decoder's layers leave in host memory, parameter by parameter until a budget is used up.

The engine moves the parameters of its layers in their order while what it has moved is below the budget, so that the
last one may exceed it (maybe_offload_to_cpu of model_executor/models/utils.py, later model_executor/offloader/uva.py).
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from service.domain.engines.plain import SIXTEEN_BIT_TYPES
from service.domain.engines.vllm.activations import second_runner
from service.domain.engines.vllm.media import takes_media
from service.domain.engines.vllm.rules import kernel_name
from service.domain.engines.vllm.shapes import FUSED
from service.domain.errors import Fault, NotSupported
from service.domain.parallel import stage_layers
from service.domain.weights import stage_shapes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.domain.engines.vllm.capacity import Held
    from service.domain.engines.vllm.policy import ReleaseRules
    from service.domain.engines.vllm.rules import Rules
    from service.domain.engines.vllm.setting import Setting
    from service.domain.weights import Part, StageShapes

_NAME: Final = "/cpu_offload_bytes"
# From there on kernels of experts in 16 bits make new weights of what was loaded.
_CONVERTING_CAPABILITY: Final = 10.0
_BIAS: Final = ".bias"
# Parameters of a layer in the order of their modules: attention, router, shared experts, experts or inner layer, norms.
_ORDER: Final = (
    *("sinks", "qkv", "qkv.bias", "o_proj", "o_proj.bias", "q_norm", "k_norm", "input_layernorm"),
    *("router", "router.bias", "shared_expert_gate", "shared_expert.gate_up", "shared_expert.down_proj"),
    *("experts.gate_up", "experts.gate_up.bias", "experts.down_proj", "experts.down_proj.bias"),
    *("gate_up", "gate_up.bias", "down_proj", "down_proj.bias", "post_attention_layernorm", "layer_norms"),
)
_PLACE: Final = {name: place for place, name in enumerate(_ORDER)}


def hosted_bytes(setting: Setting, rules: Rules) -> tuple[int, ...]:
    """Bytes of the fullest rank of each stage that stay in host memory; none of them where the engine ignores it."""
    layout, budget_bytes = setting.layout, setting.asked.cpu_offload_bytes
    if not budget_bytes or _ignored(setting, rules):
        return (0,) * layout.pipeline
    shapes = stage_shapes(setting.model.architecture, layout)
    stages = stage_layers(setting.model.architecture.layers, layout.pipeline)
    return tuple(
        _used_bytes(budget_bytes, _parameters(s, layers, setting)) for s, layers in zip(shapes, stages, strict=True)
    )


def _used_bytes(budget_bytes: int, sizes_bytes: Iterator[int]) -> int:
    """Bytes moved until the budget is reached, the last parameter whole."""
    used_bytes = 0
    for size_bytes in sizes_bytes:
        if used_bytes >= budget_bytes:
            break
        used_bytes += size_bytes
    return used_bytes


def _parameters(shapes: StageShapes, layers: range, setting: Setting) -> Iterator[int]:
    """Bytes of every parameter of the stage's layers in their order; matrices that one kernel reads are one."""
    parts = [part for part in (*shapes.read, *shapes.experts) if part.module.layers]
    for layer in layers:
        sizes: dict[int, int] = defaultdict(int)
        for part in parts:
            if layer in part.layers:
                sizes[_PLACE[_parameter(part.module.name)]] += _bytes(part, setting)
        yield from (size for _, size in sorted(sizes.items()))


def _bytes(part: Part, setting: Setting) -> int:
    return part.per_layer * setting.weights.matrix_bytes(part.rows, part.columns, part.module.kind)


def _parameter(name: str) -> str:
    """What the engine calls the parameter that holds a matrix of that name, as far as its order goes."""
    bare = name.removesuffix(_BIAS)
    block, dot, last = bare.rpartition(".")
    return block + dot + FUSED.get(last, last) + (_BIAS if bare != name else "")


def _ignored(setting: Setting, rules: Rules) -> bool:
    return second_runner(setting, rules) and not rules.offload.second_runner


def offload_warnings(held: Held, setting: Setting) -> Iterator[str]:
    """What a reader of an answer with weights in host memory should not overlook."""
    asked = setting.asked.cpu_offload_bytes
    if not asked:
        return
    if _ignored(setting, held.rules):
        yield "This release's second model runner takes cpu_offload_bytes and moves nothing to host memory."
        return
    moved = held.hosted_bytes
    if moved < asked:
        yield f"Only the {moved:,} bytes of a rank's decoder layers can stay in host memory, not {asked:,}."
    yield (
        f"{moved:,} bytes of weights on each GPU's rank stay in pinned host memory, and every step reads them over its"
        " link to the host: no times are told."
    )


def check_offload(setting: Setting, release: ReleaseRules, rules: Rules, groups: int) -> None:
    """Refuse weights in host memory of which nobody can tell what stays there; `groups` are those of its caches."""
    if not setting.asked.cpu_offload_bytes or _ignored(setting, rules):
        return
    why = _unknown(setting, release, rules) or _not_started(release, rules, groups)
    if why:
        raise NotSupported(Fault(_NAME, why))


def _not_started(release: ReleaseRules, rules: Rules, groups: int) -> str | None:
    if groups == 1 or not rules.offload.one_group:
        return None
    return (
        f"vLLM {release.name} does not start with weights in host memory and {groups} groups of caches: where these"
        " are windows, give hybrid_cache false, else a newer engine_version."
    )


def _unknown(setting: Setting, release: ReleaseRules, rules: Rules) -> str | None:
    """Why what this release leaves in host memory is not known; None where it is."""
    why = _unknown_format(setting) or _unknown_modules(setting) or _unknown_device(setting) or _unknown_beside(setting)
    if why or rules.offload.views:
        return why or _unknown_towers(setting, rules)
    return (
        f"vLLM {release.name} copies the weights of a layer to the device while it runs, and how much room these copies"
        " take is not known: give an engine_version from 0.10 on."
    )


def _unknown_format(setting: Setting) -> str | None:
    if setting.weights.name not in SIXTEEN_BIT_TYPES:
        return (
            f"Kernels for {setting.weights.name} make new weights of what was loaded, on the device or not by release:"
            " only 16-bit weights are quoted with some in host memory."
        )
    return None


def _unknown_beside(setting: Setting) -> str | None:
    if setting.weight_bytes is not None or setting.parameters is not None:
        return "How large single parameters are is not known of weight_bytes and parameters: leave them out."
    if setting.asked.max_loras:
        return "Whether slots of adapters follow weights into host memory is not known: leave one of both out."
    layout = setting.layout
    if layout.expert and layout.data > 1:
        return "Which experts of a rank stay in host memory is not known where replicas share them: leave it out."
    return None


def _unknown_device(setting: Setting) -> str | None:
    device = setting.device
    if device.unified or device.vendor not in {"", "nvidia"}:
        return f"What {device.name} gains from weights in host memory is not known: only NVIDIA's own memory is quoted."
    backend = setting.asked.moe_backend
    plain = backend is None or kernel_name(backend) in {"auto", "triton"}
    converts = not plain or device.capability is None or device.capability >= _CONVERTING_CAPABILITY
    if setting.model.architecture.experts[0] and converts:
        return (
            "Which kernels of experts make new weights of what was loaded is not known for this device: give"
            " moe_backend triton on one before Blackwell."
        )
    return None


def _unknown_modules(setting: Setting) -> str | None:
    model = setting.model
    named = {_parameter(module.name) for module in model.architecture.modules if module.layers}
    strange = sorted(named - set(_ORDER))
    if strange or not named:
        return f"In which order {model.name} has its parameters is not known ({', '.join(strange) or 'none'})."
    return None


def _unknown_towers(setting: Setting, rules: Rules) -> str | None:
    if rules.offload.towers and takes_media(setting, rules):
        return (
            "This release leaves its encoder in host memory too, before or after its layers: give"
            " encoder_budget_tokens 0 for text alone, or an engine_version before 0.29."
        )
    return None
