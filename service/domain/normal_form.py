"""A model's normal form as plain values for the wire: its cache layers and its modules, with shapes and counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from service.domain.architecture import Architecture, CacheLayers, Module


def cache_layers(architecture: Architecture) -> list[dict[str, Any]]:
    """Groups of layers that own equal caches; `state_bytes` is what a sequence takes however long it is."""
    return [_cache_row(group) for group in architecture.caches]


def modules(architecture: Architecture) -> list[dict[str, Any]]:
    """Groups of equal weight tensors, in the reader's order; `parameters` counts all of a group."""
    return [_module_row(module) for module in architecture.modules]


def _cache_row(group: CacheLayers) -> dict[str, Any]:
    spec = group.spec
    return {
        "kind": spec.kind,
        "layers": list(group.layers),
        "kv_heads": spec.kv_heads,
        "key_width": spec.key_width,
        "value_width": spec.value_width,
        "window_tokens": spec.window_tokens,
        "state_bytes": spec.fixed_bytes,
        "shared_with": list(group.shared_with),
        "query_heads": group.query_heads,
        "tokens_per_row": getattr(spec, "tokens_per_row", 1),
        "read_limit_tokens": getattr(spec, "read_limit_tokens", None),
    }


def _module_row(module: Module) -> dict[str, Any]:
    return {
        "name": module.name,
        "kind": module.kind,
        "count": module.count,
        "shape": [module.rows, module.columns],
        "parameters": module.parameters,
        "active_per_token": module.active_count * module.elements,
        "layers": list(module.layers),
    }
