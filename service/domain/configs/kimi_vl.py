"""kimi_vl, kimi_k25 and kimi_k3: MoonViT and a patch merger before a deepseek_v3, a kimi_k2 or a kimi_linear."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture, Module, ModuleKind
from service.domain.configs.encoder_blocks import Tower, area, depth
from service.domain.configs.fields import Fields
from service.domain.configs.wrapping import Tying, compose, encoder, read_text

MODEL_TYPES = ("kimi_vl", "kimi_k25", "kimi_k3")
_VISION: Mapping[str, Any] = {
    "patch_size": 14,
    "init_pos_emb_height": 64,
    "init_pos_emb_width": 64,
    "vt_num_hidden_layers": 27,
    "vt_hidden_size": 1152,
    "vt_intermediate_size": 4304,
}
_THIRD: Mapping[str, Any] = {
    **_VISION,
    "vt_hidden_size": 1024,
    "vt_intermediate_size": 4096,
    "qkv_hidden_size": 1536,
}
# The published file's, which a file cut to the decoder's sizes leaves out.
_K3: Mapping[str, Any] = {"mla_use_output_gate": True, "attn_res_block_size": 12, "latent_moe_use_norm": True}
_CHANNELS = 3


def read(fields: Fields) -> Architecture:
    """K3's encoder has RMSNorms and no biases; of kimi_vl the decoder's own config says whether its head is tied."""
    kind = fields.text("model_type")
    third = kind == "kimi_k3"
    tying = None if kind == "kimi_vl" else Tying(silent=not third)
    text = read_text(fields, "kimi_linear" if third else "deepseek_v3", tying, defaults=_K3 if third else {})

    def encode(inner: Fields) -> list[Module]:
        return _encoder(inner.defaulting(_THIRD if third else _VISION), text.hidden_size, plain=third)

    modules, notes = encoder(fields, "vision_config", encode)
    return compose(fields, text, modules, *notes)


def _encoder(fields: Fields, out: int, *, plain: bool) -> list[Module]:
    """`plain` is without biases, with a norm behind the projection instead of before it."""
    width = fields.integer("vt_hidden_size", "hidden_size")
    layers = depth(fields, "vt_num_hidden_layers", "num_hidden_layers")
    inner = fields.integer("qkv_hidden_size", default=width)
    height, wide = (fields.integer(f"init_pos_emb_{side}", f"pos_emb_{side}") for side in ("height", "width"))
    tower = Tower(ModuleKind.VISION, "vision_tower")
    tower.linear("patch_embed", width, _CHANNELS * area(fields, "patch_size"), bias=not plain)
    tower.matrix("position_embedding", height * wide, width)
    tower.attention(width, layers, bias=not plain, inner=inner)
    tower.mlp(width, fields.integer("vt_intermediate_size", "intermediate_size"), layers, bias=not plain)
    tower.norm("layer_norms", width, 2 * layers + 1, bias=not plain)
    joined = width * _merge(fields)
    tower.name = "projector"
    tower.norm("norm", out if plain else width, bias=not plain)
    tower.linear("linear_1", joined, joined, bias=not plain)
    tower.linear("linear_2", out, joined, bias=not plain)
    return tower.modules


def _merge(fields: Fields) -> int:
    """Patches that become one."""
    return area(fields.defaulting({**fields.defaults, "merge_kernel_size": 2}), "merge_kernel_size")
