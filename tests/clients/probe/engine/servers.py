"""Servers shaped as engines of several releases answer, with the fields that matter and some that must not leave."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

Pages = Mapping[str, tuple[str, bytes]]

JSON = "application/json"
METRICS = "text/plain; version=0.0.4; charset=utf-8"
SECRETS = ("sk-secret", "/home/ada", "node-17", "10.0.0.7")


class Release(NamedTuple):
    """What a release serves, and what has to be read from it; `uniform` is told where it does not tell tokens."""

    engine: str
    pages: dict[str, Any]
    values: dict[str, Any]
    setup: dict[str, Any]
    version: str | None
    uniform: bool | None = None


def served(release: Release) -> Pages:
    """Pages as bytes: a text is a metrics page, anything else JSON."""
    return {
        path: (METRICS, page.encode()) if isinstance(page, str) else (JSON, json.dumps(page).encode())
        for path, page in release.pages.items()
    }


def cache_config(**labels: str) -> str:
    body = ",".join(f'{name}="{text}"' for name, text in labels.items())
    return (
        "# HELP vllm:cache_config_info Information of the LLMEngine CacheConfig\n"
        "# TYPE vllm:cache_config_info gauge\n"
        f"vllm:cache_config_info{{{body}}} 1.0\n"
        '# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{model_name="m"} 3.0\n'
    )


_VLLM_CACHE = {
    "block_size": "16",
    "cache_dtype": "auto",
    "cpu_offload_gb": "0",
    "enable_prefix_caching": "True",
    "gpu_memory_utilization": "0.9",
    "is_attention_free": "False",
    "num_cpu_blocks": "2048",
    "num_gpu_blocks": "27837",
    "num_gpu_blocks_override": "None",
    "sliding_window": "None",
    "swap_space_bytes": "4294967296",
}


def _vllm_models(root: str, **more: object) -> dict[str, Any]:
    card = {"id": "chat", "object": "model", "owned_by": "vllm", "root": root, "max_model_len": 8192, **more}
    return {"object": "list", "data": [card]}


VLLM_0_6 = Release(
    "vllm",
    {
        "/version": {"version": "0.6.4.post1"},
        "/v1/models": _vllm_models("meta-llama/Llama-3.1-8B-Instruct"),
        "/metrics": cache_config(**_VLLM_CACHE),
    },
    {"kv_capacity_tokens": 445_392, "blocks": 27_837, "block_tokens": 16},
    {
        "model": "meta-llama/Llama-3.1-8B-Instruct",
        "context_limit_tokens": 8192,
        "kv_dtype": "auto",
        "memory_utilization": 0.9,
        "prefix_caching": True,
    },
    "0.6.4.post1",
)
VLLM_0_11 = Release(
    "vllm",
    {
        "/version": {"version": "0.11.0"},
        "/v1/models": _vllm_models("/home/ada/models/Qwen2.5-7B-Instruct"),
        "/metrics": cache_config(**_VLLM_CACHE, engine="0", mamba_cache_dtype="auto", kv_cache_memory_bytes="None"),
    },
    VLLM_0_6.values,
    {**VLLM_0_6.setup, "model": "Qwen2.5-7B-Instruct"},
    "0.11.0",
    uniform=True,
)
VLLM_0_24 = Release(
    "vllm",
    {
        "/version": {"version": "0.24.0"},
        "/v1/models": _vllm_models("google/gemma-3-27b-it"),
        "/metrics": cache_config(
            **{**_VLLM_CACHE, "cache_dtype": "fp8_e4m3", "gpu_memory_utilization": "0.92"},
            engine="0",
            kv_cache_size_tokens="197283",
            kv_cache_max_concurrency="24.0823974609375",
            effective_attention_block_size="32",
        ),
    },
    {"kv_capacity_tokens": 197_283, "blocks": 27_837, "block_tokens": 32, "max_concurrency": 24.0823974609375},
    {
        "model": "google/gemma-3-27b-it",
        "context_limit_tokens": 8192,
        "kv_dtype": "fp8_e4m3",
        "memory_utilization": 0.92,
        "prefix_caching": True,
    },
    "0.24.0",
)

_SGLANG_ARGS = {
    "model_path": "/home/ada/.cache/huggingface/hub/models--Qwen--Qwen3-8B/snapshots/abc",
    "tokenizer_path": "/home/ada/tokenizer",
    "host": "10.0.0.7",
    "api_key": "sk-secret",
    "tp_size": 2,
    "pp_size": 1,
    "dp_size": 1,
    "mem_fraction_static": 0.88,
    "kv_cache_dtype": "auto",
    "page_size": 1,
    "context_length": 32768,
    "max_running_requests": 2048,
    "max_total_tokens": None,
    "attention_backend": "fa3",
    "quantization": None,
    "enable_dp_attention": False,
    "speculative_algorithm": None,
    "nccl_init_addr": "node-17:5000",
}
_SGLANG_SETUP = {
    "model": "Qwen/Qwen3-8B",
    "kv_dtype": "auto",
    "context_limit_tokens": 32768,
    "tensor_parallel": 2,
    "pipeline_parallel": 1,
    "data_parallel": 1,
    "memory_utilization": 0.88,
    "attention_backend": "fa3",
}
SGLANG_0_4 = Release(
    "sglang",
    {
        "/get_server_info": {
            **_SGLANG_ARGS,
            "max_total_num_tokens": 912_345,
            "max_req_input_len": 32762,
            "version": "0.4.8",
            "internal_states": [
                {"last_gen_throughput": 0.0, "memory_usage": {"kvcache": 62.65, "token_capacity": 912345}}
            ],
        },
        "/v1/models": {"data": [{"id": "chat", "owned_by": "sglang", "root": "chat"}]},
    },
    {"kv_capacity_tokens": 912_345, "kv_cache_bytes": 67_269_925_274, "block_tokens": 1},
    _SGLANG_SETUP,
    "0.4.8",
)
SGLANG_0_5 = Release(
    "sglang",
    {
        "/server_info": {
            **_SGLANG_ARGS,
            "model_path": "deepseek-ai/DeepSeek-V3",
            "quantization": "fp8",
            "enable_dp_attention": True,
            "dp_size": 2,
            "page_size": 64,
            "speculative_algorithm": "EAGLE",
            "speculative_draft_model_path": "/home/ada/draft",
            "max_total_num_tokens": 640_000,
            "version": "0.5.6",
            "internal_states": [
                {
                    "api_key": "sk-secret",
                    "memory_usage": {"weight": 42.0, "kvcache": 20.5, "token_capacity": 640_000, "graph": 1.25},
                },
                {"memory_usage": {"weight": 42.0, "kvcache": 20.0, "token_capacity": 624_384, "graph": 1.25}},
            ],
        },
        "/v1/models": {"data": [{"id": "chat", "owned_by": "sglang"}]},
    },
    {
        "kv_capacity_tokens": 640_000,
        "kv_cache_bytes": 22_011_707_392,
        "weight_bytes": 45_097_156_608,
        "graph_bytes": 1_342_177_280,
        "block_tokens": 64,
    },
    {
        "model": "deepseek-ai/DeepSeek-V3",
        "weight_dtype": "fp8",
        "kv_dtype": "auto",
        "context_limit_tokens": 32768,
        "tensor_parallel": 2,
        "pipeline_parallel": 1,
        "attention_data_parallel": 2,
        "memory_utilization": 0.88,
        "attention_backend": "fa3",
        "speculative_method": "eagle",
    },
    "0.5.6",
)

_TRITON = """# TYPE nv_trt_llm_request_metrics gauge
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="active",version="1"} 0
# TYPE nv_trt_llm_kv_cache_block_metrics gauge
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="tokens_per",model="tensorrt_llm",version="1"} 64
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="used",model="tensorrt_llm",version="1"} 1
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="free",model="tensorrt_llm",version="1"} 6239
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="max",model="tensorrt_llm",version="1"} 6239
nv_gpu_memory_total_bytes{gpu_uuid="GPU-7f6d1f8e-2f0e-4a53-8f0b-0c4f6f1f9b11"} 85520809984
"""
_TRT_MODELS = {"data": [{"id": "/home/ada/TinyLlama-1.1B-Chat-v1.0", "owned_by": "tensorrt_llm"}]}
_BLOCKS = {"kv_capacity_tokens": 399_296, "blocks": 6239, "block_tokens": 64}
TRITON = Release("tensorrt-llm", {"/metrics": _TRITON}, _BLOCKS, {}, None, uniform=True)
TRTLLM_SERVE_0_17 = Release(
    "tensorrt-llm",
    {
        "/version": {"version": "0.17.0"},
        "/v1/models": _TRT_MODELS,
        "/metrics": [
            {"gpuMemUsage": 56_401_920_000, "iter": 0},
            {
                "gpuMemUsage": 56_401_920_000,
                "inflightBatchingStats": {"numContextRequests": 0},
                "kvCacheStats": {"freeNumBlocks": 6238, "maxNumBlocks": 6239, "tokensPerBlock": 64, "usedNumBlocks": 1},
            },
        ],
    },
    _BLOCKS,
    {"model": "TinyLlama-1.1B-Chat-v1.0"},
    "0.17.0",
    uniform=True,
)
TRTLLM_SERVE_1_2 = Release(
    "tensorrt-llm",
    {
        "/version": {"version": "1.2.0"},
        "/v1/models": _TRT_MODELS,
        "/metrics": [],
        "/prometheus/metrics": (
            '# TYPE trtllm_kv_cache_max_blocks gauge\ntrtllm_kv_cache_max_blocks{model_name="m"} 6239.0\n'
            'trtllm_kv_cache_tokens_per_block{model_name="m"} 64.0\n'
        ),
    },
    _BLOCKS,
    {"model": "TinyLlama-1.1B-Chat-v1.0"},
    "1.2.0",
    uniform=True,
)

LLAMA_CPP_B5200 = Release(
    "llama.cpp",
    {
        "/props": {
            "default_generation_settings": {"id": 0, "n_ctx": 8192, "params": {"temperature": 0.8}},
            "total_slots": 4,
            "model_path": "/home/ada/Llama-3.2-3B-Instruct-Q4_K_M.gguf",
            "build_info": "b5200-19e899ce",
        },
        "/v1/models": {"data": [{"id": "/home/ada/x.gguf", "owned_by": "llamacpp", "meta": {"size": 2_013_265_920}}]},
    },
    {"kv_capacity_tokens": 32_768},
    {
        "model": "Llama-3.2-3B-Instruct",
        "weight_dtype": "q4_k_m",
        "context_limit_tokens": 32_768,
        "parallel_slots": 4,
    },
    "b5200-19e899ce",
)
LLAMA_CPP_B7400 = Release(
    "llama.cpp",
    {
        "/props": {
            "default_generation_settings": {"n_ctx": 16384},
            "total_slots": 1,
            "model_path": "/home/ada/private.gguf",
            "model_alias": "chat",
            "build_info": "b7400-abcdef01",
            "is_sleeping": False,
            "modalities": {"vision": False},
        },
        "/v1/models": {"data": [{"id": "ggml-org/gpt-oss-20b-GGUF", "owned_by": "llamacpp"}]},
    },
    {"kv_capacity_tokens": 16_384},
    {"model": "ggml-org/gpt-oss-20b-GGUF", "context_limit_tokens": 16_384, "parallel_slots": 1},
    "b7400-abcdef01",
)

_TGI_INFO = {
    "model_id": "HuggingFaceH4/zephyr-7b-beta",
    "model_sha": "0e9e39f249a16976918f6564b8830bc894c89659",
    "model_pipeline_tag": "text-generation",
    "max_concurrent_requests": 128,
    "max_best_of": 2,
    "max_stop_sequences": 4,
    "max_total_tokens": 4096,
    "validation_workers": 2,
    "version": "2.0.4",
    "docker_label": "sha-123",
}
TGI_2_0 = Release(
    "tgi",
    {
        "/info": {
            **_TGI_INFO,
            "model_dtype": "torch.float16",
            "model_device_type": "cuda",
            "max_input_length": 4095,
            "waiting_served_ratio": 0.3,
            "max_batch_total_tokens": 413_984,
            "max_waiting_tokens": 20,
            "max_batch_size": None,
        }
    },
    {"kv_capacity_tokens": 413_984},
    {"model": "HuggingFaceH4/zephyr-7b-beta", "weight_dtype": "fp16", "context_limit_tokens": 4096},
    "2.0.4",
)
TGI_3_3 = Release(
    "tgi",
    {
        "/info": {**_TGI_INFO, "version": "3.3.4", "max_input_tokens": 4095, "router": "text-generation-router"},
        "/metrics": (
            "# TYPE tgi_batch_max_total_tokens gauge\ntgi_batch_max_total_tokens 413984\n"
            "# TYPE tgi_batch_current_size gauge\ntgi_batch_current_size 0\n"
        ),
        "/v1/models": {"data": [{"id": "HuggingFaceH4/zephyr-7b-beta", "owned_by": "HuggingFaceH4/zephyr-7b-beta"}]},
    },
    {"kv_capacity_tokens": 413_984},
    {"model": "HuggingFaceH4/zephyr-7b-beta", "context_limit_tokens": 4096},
    "3.3.4",
)

RELEASES = {
    "vllm-0.6": VLLM_0_6,
    "vllm-0.11": VLLM_0_11,
    "vllm-0.24": VLLM_0_24,
    "sglang-0.4": SGLANG_0_4,
    "sglang-0.5": SGLANG_0_5,
    "triton": TRITON,
    "trtllm-serve-0.17": TRTLLM_SERVE_0_17,
    "trtllm-serve-1.2": TRTLLM_SERVE_1_2,
    "llama.cpp-b5200": LLAMA_CPP_B5200,
    "llama.cpp-b7400": LLAMA_CPP_B7400,
    "tgi-2.0": TGI_2_0,
    "tgi-3.3": TGI_3_3,
}
