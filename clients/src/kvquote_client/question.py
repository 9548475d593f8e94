"""The names of a question: one table, from which the SDK has its keywords and the command line its options.

Types and words are those of the service's `/openapi.json`; a test holds them together.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, TypedDict


class Question(TypedDict, total=False):
    """What `/fit` can be asked. Units are in the names; what is left out has the service's default."""

    model: Annotated[str, "Slug, Hugging Face id or alias. Required unless config is given"]
    config: Annotated[Mapping[str, Any], "A published config.json, answered without being stored"]
    assume: Annotated[str, "Take an unknown family with a standard decoder's fields as one, with a warning"]
    gpu: Annotated[str, "Slug, alias or what the driver reports. Required unless gpus or memory is given"]
    gpu_count: Annotated[int, "Default: tensor x pipeline x data parallel, whose product it must equal"]
    gpus: Annotated[Sequence[str], "Each card by its name instead of gpu and gpu_count. Several kinds: llama.cpp alone"]
    context_tokens: Annotated[int, "What one sequence holds, prompt and output together"]
    context_limit_tokens: Annotated[int, "The longest sequence the engine is started for, at least context_tokens"]
    batch_size: Annotated[int, "/fit: sequences in the whole deployment; /traffic: per replica"]
    weight_dtype: Annotated[str, "A name from /dtypes. Default: the checkpoint's own"]
    kv_dtype: Annotated[str, "A name from /dtypes, or auto: the compute dtype unless the checkpoint says otherwise"]
    tensor_parallel: Annotated[int, "Ranks that share every layer. Default 1"]
    pipeline_parallel: Annotated[int, "Stages that share the layers out. Default 1"]
    data_parallel: Annotated[int, "Replicas. Default 1"]
    attention_data_parallel: Annotated[int, "Inside tensor parallel; adds no GPUs"]
    expert_parallel: Annotated[bool, "Experts are spread over the ranks instead of sliced. Default false"]
    decode_context_parallel: Annotated[int, "Divides tensor_parallel; adds no GPUs. Default 1"]
    engine: Annotated[str, "Default none: the arithmetic of a textbook"]
    engine_version: Annotated[str, "Default: the newest version known"]
    command: Annotated[str, "An engine's command line instead of the fields it sets"]
    memory_utilization: Annotated[float, "What the engine means by it. Default: the engine's; none: 1"]
    max_batched_tokens: Annotated[int, "Tokens of one step. Default: the engine's"]
    max_sequences_limit: Annotated[int, "Sequences the engine runs at most. Default: the engine's"]
    block_tokens: Annotated[int, "Tokens of a cache page. Default: the engine's"]
    enforce_eager: Annotated[bool, "No captured graphs. Default: the engine's"]
    prefix_caching: Annotated[bool, "Prefixes are shared. Default: the engine's"]
    async_scheduling: Annotated[bool, "The next step is scheduled while this one runs. Default: the engine's"]
    attention_backend: Annotated[str, "Default: the engine's"]
    hybrid_cache: Annotated[bool, "Layers of different cache kinds get groups of their own. Default: the engine's"]
    speculative_method: Annotated[str, "Default: none"]
    speculative_tokens: Annotated[int, "Tokens guessed per step"]
    draft_model: Annotated[str, "The model that guesses"]
    gpu_layers: Annotated[int, "Layers kept on the GPU"]
    cpu_expert_layers: Annotated[int, "Layers, from the first on, whose experts stay in host memory; -1 for all"]
    cpu_tensors: Annotated[Sequence[str], "Patterns of tensor names that stay in host memory"]
    tensor_split: Annotated[Sequence[float], "Share of each GPU, in any unit"]
    parallel_slots: Annotated[int, "Slots that share the context"]
    max_loras: Annotated[int, "Slots for adapters, each for one of a batch"]
    max_lora_rank: Annotated[int, "Their greatest rank. Default 16 with max_loras"]
    fully_sharded_loras: Annotated[bool, "Tensor parallelism divides both of their factors. Default: the engine's"]
    cpu_offload_bytes: Annotated[int, "Weights kept in host memory, per GPU"]
    graph_mode: Annotated[str, "Which graphs are captured. Default: the engine's"]
    graph_sizes: Annotated[Sequence[int], "Tokens of each captured graph. Default: the engine's own sizes"]
    graph_size_limit: Annotated[int, "The largest captured graph, in tokens. Default: the engine's"]
    moe_backend: Annotated[str, "Default: the engine's"]
    sampler_backend: Annotated[str, "Default: the engine's"]
    encoder_budget_tokens: Annotated[int, "Tokens of images or audio in one step"]
    encoder_limits: Annotated[Sequence[str], "Images, videos and audio in one prompt: image=2 or image=2@512x512"]
    encoder_image_pixels: Annotated[int, "Of the largest image. Default: the model's own"]
    encoder_profiling: Annotated[bool, "The start runs the encoder before it sizes its cache. Default true"]
    encoder_data_parallel: Annotated[bool, "The encoder stands whole on every rank. Default false"]
    memory_bytes: Annotated[int, "Per GPU; overrides the catalog's"]
    gpus_memory_bytes: Annotated[Sequence[int], "Of each GPU, in the order of gpus; overrides the catalog's"]
    memory_basis: Annotated[str, "What memory is: visible or advertised. Default: advertised for engine none"]
    memory_used_by_others_bytes: Annotated[int, "Per GPU. Default 0"]
    reserve_bytes: Annotated[int, "Per GPU; overrides every modelled part. Engine none: 4 GiB"]
    kv_cache_bytes: Annotated[int, "Per GPU; sets the cache's share and skips the reserve"]
    parameters: Annotated[float, "Whole model; overrides the catalog's exact count"]
    weight_bytes: Annotated[float, "Whole model; overrides the catalog's"]
    bandwidth_bytes_per_second: Annotated[float, "Per GPU; overrides the catalog's"]
    peak_flops_per_second: Annotated[float, "Per GPU, dense; overrides the catalog's"]
    shared_prefix_tokens: Annotated[int, "Prompt tokens that all sequences share. Default 0"]
    lengths: Annotated[Mapping[str, Any], "A length distribution beside the context"]
    calibration: Annotated[str, "Whether to use what measurements taught. Default auto"]
    as_of: Annotated[str | datetime, "Answer from the catalog and calibration as they were then. Default: now"]


class TrafficQuestion(Question, total=False):
    """What `/traffic` can be asked: the same, and what a prefill and a curve need."""

    prompt_tokens: Annotated[int, "Of each prompt whose prefill is quoted. Default: context_tokens"]
    prefill_sequences: Annotated[int, "Prompts whose prefill runs together. Default 1"]
    curve_batch_sizes: Annotated[Sequence[int], "Batch sizes of the rows under curve"]
    curve_context_tokens: Annotated[Sequence[int], "Contexts of the rows under curve"]
