"""Tensors that stay on the host while their layer is on a device: by --n-cpu-moe, or by a pattern of their names.

Names are those of GGUF files (src/llama-arch.cpp). Those of MLPs and of experts are followed; a pattern that any other
tensor may match is refused, as what a device then computes is not described.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from service.domain.architecture import ModuleKind
from service.domain.engines.llama_cpp.tensor_patterns import Names, PatternError, read_pattern
from service.domain.errors import Fault, NotSupported
from service.domain.memo import remembered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.domain.architecture import Architecture, Module
    from service.domain.engines.ranks.setting import Setting
    from service.domain.model import Model

_ROLES: Final = {"gate_proj": "gate", "up_proj": "up", "down_proj": "down"}
_BEHIND: Final = {ModuleKind.MLP: "", ModuleKind.EXPERT: "_exps", ModuleKind.SHARED_EXPERT: "_shexp"}
_NORMS: Final = ("attn_norm.weight", "ffn_norm.weight")
_WITH_FFN_NORM: Final = frozenset(
    {"deepseek_v2", "deepseek_v3", "llama", "llama4", "mistral", "mixtral", "qwen2", "qwen3", "qwen3_moe"}
)
"""Families whose second vector of a layer's two is called so in their files."""
_ONE_MATRIX: Final = frozenset({"chatglm", "phi3", "phimoe"})
"""Families whose files have a gate and what it gates as one tensor."""
_OTHERS: Final = (
    *("attn_q", "attn_k", "attn_v", "attn_qkv", "attn_output", "attn_gate", "attn_q_a", "attn_q_b", "attn_kv_a_mqa"),
    *("attn_kv_b", "attn_k_b", "attn_v_b", "attn_sinks", "attn_norm", "attn_q_norm", "attn_k_norm", "attn_q_a_norm"),
    *("attn_kv_a_norm", "attn_post_norm", "post_attention_norm", "post_ffw_norm", "post_ffw_norm_1", "pre_ffw_norm_2"),
    *("ssm_in", "ssm_out", "ssm_conv1d", "ssm_a", "ssm_norm", "ssm_x", "ssm_dt", "indexer.attn_q_b", "indexer.attn_k"),
)
_ROUTED: Final = ("_exps.weight", "_exps.bias")
_UNKNOWN: Final = ("ffn_norm.weight", "ffn_gate_inp.weight", "ffn_gate_inp.bias", "exp_probs_b.bias")
_OUTSIDE: Final = ("output.weight", "token_embd.weight", "output_norm.weight", "rope_freqs.weight")


_STEPS: Final = 6_000
"""What all patterns of a question may take: a tenth of a second."""


class Hosted(NamedTuple):
    """Of a module's matrices or vectors of a layer so many, and the layers in which the host keeps them."""

    number: int
    layers: frozenset[int]


HostedModules = Mapping["Module", tuple[Hosted, ...]]


def hosted_modules(setting: Setting) -> HostedModules:
    """What stays on the host of layers that are on devices; raises NotSupported at `/cpu_tensors`."""
    experts, patterns = setting.asked.get("cpu_expert_layers") or 0, tuple(setting.asked.get("cpu_tensors") or ())
    if not experts and not patterns:
        return {}
    model: Model = setting.scenario.model
    key = ("llama-hosted", experts, patterns)
    found: HostedModules = remembered(model, key, lambda: _hosted(model.architecture, experts, patterns))
    return found


def _hosted(architecture: Architecture, experts: int, texts: Sequence[str]) -> HostedModules:
    count = architecture.layers if experts < 0 else min(experts, architecture.layers)
    matched = _matched(architecture, texts) if texts else frozenset()
    found = {}
    for module in architecture.modules:
        names = tensor_names(module, architecture.model_type)
        rows = []
        for name in names:
            own = count if name.endswith(_ROUTED) else 0
            layers = (n for n in module.layers if n < own or f"blk.{n}.{name}" in matched)
            rows.append(Hosted(module.per_layer // len(names), frozenset(layers)))
        if any(row.layers for row in rows):
            found[module] = tuple(rows)
    return found


def _matched(architecture: Architecture, texts: Sequence[str]) -> frozenset[str]:
    """The names of all tensors that patterns match; raises NotSupported for one that matches what is not followed."""
    followed = {
        f"blk.{layer}.{name}"
        for module in architecture.modules
        for name in tensor_names(module, architecture.model_type)
        for layer in module.layers
    }
    names = Names(sorted(followed.union(_others(architecture)) | set(_OUTSIDE)), _STEPS)
    found: set[str] = set()
    for at, text in enumerate(texts):
        with _refusing(text, at):
            matched = read_pattern(text).matched(names)
            beyond = min(matched - followed, key=_likely_first, default=None)
            if beyond is not None:
                raise PatternError(f"matches {beyond} too, and only MLPs and experts are followed to the host")
            found |= matched
    return frozenset(found)


def _likely_first(name: str) -> tuple[bool, bool, str]:
    """What nearly every model has before what few have."""
    return not name.endswith(".weight"), ".attn_output." not in name, name


def _others(architecture: Architecture) -> Iterator[str]:
    """Names of tensors that a layer may have and that are not followed."""
    family = architecture.model_type
    others = [f"{name}.{end}" for name in _OTHERS for end in ("weight", "bias")]
    others += [] if family in _WITH_FFN_NORM else _UNKNOWN
    others += ("ffn_up.weight", "ffn_down.weight") if family in _ONE_MATRIX else ()
    return (f"blk.{layer}.{name}" for layer in range(architecture.layers) for name in others)


@contextmanager
def _refusing(text: str, at: int) -> Iterator[None]:
    try:
        yield
    except PatternError as error:
        detail = f"The pattern {text[:60]!r} {error}; one such as '\\.ffn_.*_exps\\.' is quoted."
        raise NotSupported(Fault(f"/cpu_tensors/{at}", detail)) from error


def tensor_names(module: Module, model_type: str) -> tuple[str, ...]:
    """The names of a module's tensors in a file, behind `blk.N.`; none where they are not followed."""
    name, _, bias = module.name.partition(".bias")
    role, kind = _ROLES.get(name.rpartition(".")[2]), module.kind
    if kind is ModuleKind.BIAS and role and name.startswith("experts."):
        return (f"ffn_{role}_exps.bias",)
    if kind in _BEHIND and role and not (kind is ModuleKind.MLP and model_type in _ONE_MATRIX):
        return (f"ffn_{role}{_BEHIND[kind]}.weight",)
    if model_type not in _WITH_FFN_NORM:
        return ()
    if kind is ModuleKind.ROUTER and not bias:
        return ("ffn_gate_inp.weight",)
    return _NORMS if kind is ModuleKind.NORM and name == "layer_norms" and module.per_layer == len(_NORMS) else ()
