"""Models small enough to be built whole within a test, as published configs have their shapes."""

import json
from pathlib import Path
from typing import Any

_SHARED = {"hidden_size": 64, "intermediate_size": 128, "vocab_size": 512, "max_position_embeddings": 4096}

CONFIGS: dict[str, dict[str, Any]] = {
    "multi-head": {
        **_SHARED,
        "model_type": "llama",
        "num_hidden_layers": 6,
        "num_attention_heads": 8,
        "num_key_value_heads": 8,
        "torch_dtype": "float16",
    },
    "wide": {
        **_SHARED,
        "model_type": "llama",
        "hidden_size": 256,
        "num_hidden_layers": 6,
        "num_attention_heads": 8,
        "num_key_value_heads": 8,
        "torch_dtype": "float16",
    },
    "grouped": {
        **_SHARED,
        "model_type": "llama",
        "num_hidden_layers": 6,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "torch_dtype": "bfloat16",
    },
    "windowed": {
        **_SHARED,
        "model_type": "gemma3_text",
        "num_hidden_layers": 6,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "sliding_window": 16,
        "sliding_window_pattern": 3,
        "torch_dtype": "bfloat16",
    },
    "latent": {
        **_SHARED,
        "model_type": "deepseek_v2",
        "num_hidden_layers": 6,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "kv_lora_rank": 16,
        "q_lora_rank": None,
        "qk_nope_head_dim": 8,
        "qk_rope_head_dim": 4,
        "v_head_dim": 8,
        "n_routed_experts": 8,
        "num_experts_per_tok": 2,
        "n_shared_experts": 1,
        "moe_intermediate_size": 32,
        "first_k_dense_replace": 1,
        "torch_dtype": "bfloat16",
    },
}


def config_file(folder: Path, name: str) -> Path:
    """The config of that name as a file in a folder."""
    path = folder / f"{name}.json"
    path.write_text(json.dumps(CONFIGS[name]), encoding="utf-8")
    return path
