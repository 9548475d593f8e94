"""Experts that work in a narrower space than their layer, between two projections (Kimi K3, Nemotron 3)."""

from __future__ import annotations

from service.domain.architecture import Module, ModuleKind, Shard
from service.domain.configs import blocks, moe
from service.domain.configs.base import routing
from service.domain.configs.fields import Fields

_WHOLE = Shard.REPLICATED


def modules(fields: Fields, hidden: int, layers: tuple[int, ...]) -> list[Module]:
    """Routed and shared experts of these layers; without `routed_expert_hidden_size`, as everywhere."""
    names = ("num_experts", "num_local_experts", "n_routed_experts")
    count, active = routing(fields, names, ("num_experts_per_token", "num_experts_per_tok"))
    width = fields.integer("moe_intermediate_size")
    shared = width * fields.integer("num_shared_experts", "n_shared_experts", default=0, least=0)
    narrow = fields.optional("routed_expert_hidden_size")
    if narrow is None:
        return moe.modules(hidden, moe.Experts(count=count, active=active, width=width, shared=shared), layers)
    expert = blocks.gated_mlp(narrow, width, layers, ModuleKind.EXPERT)
    made = [
        *blocks.router(hidden, count, layers, biased=True),
        *blocks.routed(expert, count, active),
        blocks.matrix("routed_expert_down_proj", ModuleKind.MLP, narrow, hidden, layers, _WHOLE),
        blocks.matrix("routed_expert_up_proj", ModuleKind.MLP, hidden, narrow, layers, _WHOLE),
    ]
    if fields.flag("latent_moe_use_norm", default=False):
        made.append(blocks.vector("routed_expert_norm", narrow, layers))
    return made + blocks.shared_experts(hidden, shared, layers) if shared else made


def ungated(fields: Fields, hidden: int, layers: tuple[int, ...]) -> list[Module]:
    """Experts without a gate, in a narrower space between two projections where the file gives one."""
    if not layers:
        return []
    latent, biased = fields.optional("moe_latent_size"), fields.flag("mlp_bias", default=False)
    count, active = routing(fields, ("n_routed_experts", "num_local_experts", "num_experts"), ("num_experts_per_tok",))
    width, shared = fields.integer("moe_intermediate_size"), fields.integer("moe_shared_expert_intermediate_size")
    expert = blocks.plain_mlp(latent or hidden, width, layers, ModuleKind.EXPERT, biased=False)
    made = [
        *blocks.router(hidden, count, layers),
        *blocks.routed(expert, count, active),
        *blocks.plain_mlp(hidden, shared, layers, ModuleKind.SHARED_EXPERT, biased=biased),
    ]
    if latent:
        made.append(blocks.matrix("fc1_latent_proj", ModuleKind.MLP, latent, hidden, layers, _WHOLE))
        made.append(blocks.matrix("fc2_latent_proj", ModuleKind.MLP, hidden, latent, layers, _WHOLE))
        if biased:
            made.append(blocks.vector("latent_proj.bias", latent + hidden, layers, ModuleKind.BIAS))
    return made
