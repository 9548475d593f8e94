from service.domain.configs import read_config
from service.domain.normal_form import cache_layers, modules

LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "vocab_size": 1000,
    "max_position_embeddings": 512,
}
MIXTRAL = {**LLAMA, "model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2}
GEMMA_2 = {**LLAMA, "model_type": "gemma2", "head_dim": 16, "sliding_window": 128, "num_hidden_layers": 4}


def test_equal_caches_are_one_row_with_the_layers_that_own_them() -> None:
    assert cache_layers(read_config(LLAMA)) == [
        {
            "kind": "full",
            "layers": [0, 1],
            "kv_heads": 2,
            "key_width": 16,
            "value_width": 16,
            "window_tokens": None,
            "state_bytes": 0,
            "shared_with": [],
            "query_heads": 4,
            "tokens_per_row": 1,
            "read_limit_tokens": None,
        }
    ]


def test_windows_are_rows_of_their_own() -> None:
    rows = {row["kind"]: (row["layers"], row["window_tokens"]) for row in cache_layers(read_config(GEMMA_2))}

    assert rows == {"sliding": ([0, 2], 128), "full": ([1, 3], None)}


def test_modules_add_up_to_the_parameters() -> None:
    architecture = read_config(MIXTRAL)

    rows = modules(architecture)

    assert sum(row["parameters"] for row in rows) == architecture.parameters
    assert sum(row["active_per_token"] for row in rows) == architecture.active_parameters
    assert all(row["parameters"] == row["count"] * row["shape"][0] * row["shape"][1] for row in rows)


def test_of_experts_a_token_uses_only_those_it_visits() -> None:
    experts = [row for row in modules(read_config(MIXTRAL)) if row["kind"] == "expert"]

    assert experts
    assert all(row["active_per_token"] * 4 == row["parameters"] for row in experts)
