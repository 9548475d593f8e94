"""Parameters of a published config by the closed form of its family, written apart from the service's readers.

Every norm is a vector of the model's width; a family's own default decides where the config is silent.
"""

from collections.abc import Callable, Mapping
from typing import Any

Config = Mapping[str, Any]


def width(c: Config) -> int:
    return int(c["hidden_size"])


def layers(c: Config) -> int:
    return int(c["num_hidden_layers"])


def heads(c: Config) -> tuple[int, int, int]:
    """H, K and d; K is H and d is D / H where the config is silent."""
    query = c["num_attention_heads"]
    return query, c.get("num_key_value_heads") or query, c.get("head_dim") or width(c) // query


def attention(c: Config) -> int:
    query, kv, size = heads(c)
    return 2 * width(c) * size * (query + kv)


def gated_mlp(c: Config, mlp_width: int) -> int:
    return 3 * width(c) * mlp_width


def embedding(c: Config, *, tied: bool) -> int:
    """Embedding and head, and the final norm; `tied` is the family's own default."""
    copies = 1 if c.get("tie_word_embeddings", tied) else 2
    return int(c["vocab_size"]) * width(c) * copies + width(c)


def llama(c: Config) -> int:
    layer = attention(c) + gated_mlp(c, c["intermediate_size"]) + 2 * width(c)
    return embedding(c, tied=False) + layers(c) * layer


def qwen2(c: Config) -> int:
    query, kv, size = heads(c)
    return llama(c) + layers(c) * (query + 2 * kv) * size


def qwen3(c: Config) -> int:
    return llama(c) + layers(c) * 2 * heads(c)[2]


def gemma(c: Config) -> int:
    layer = attention(c) + gated_mlp(c, c["intermediate_size"]) + 2 * width(c)
    return embedding(c, tied=True) + layers(c) * layer


def gemma2(c: Config) -> int:
    return gemma(c) + layers(c) * 2 * width(c)


def experts(c: Config, count: int, expert_width: int) -> int:
    """Routed experts and their router."""
    return count * gated_mlp(c, expert_width) + count * width(c)


def mixtral(c: Config) -> int:
    layer = attention(c) + experts(c, c["num_local_experts"], c["intermediate_size"]) + 2 * width(c)
    return embedding(c, tied=False) + layers(c) * layer


def qwen3_moe(c: Config) -> int:
    layer = attention(c) + 2 * heads(c)[2] + experts(c, c["num_experts"], c["moe_intermediate_size"])
    return embedding(c, tied=False) + layers(c) * (layer + 2 * width(c))


def qwen2_moe(c: Config) -> int:
    query, kv, size = heads(c)
    shared = gated_mlp(c, c["shared_expert_intermediate_size"]) + width(c)
    layer = attention(c) + (query + 2 * kv) * size + shared + 2 * width(c)
    layer += experts(c, c["num_experts"], c["moe_intermediate_size"])
    return embedding(c, tied=False) + layers(c) * layer


CLOSED_FORMS: Mapping[str, Callable[[Config], int]] = {
    "llama": llama, "mistral": llama, "phi3": llama, "qwen2": qwen2, "qwen3": qwen3, "gemma": gemma, "gemma2": gemma2,
    "mixtral": mixtral, "qwen3_moe": qwen3_moe, "qwen2_moe": qwen2_moe,
}  # fmt: skip
