"""What `/fit` and `/traffic` are asked: the names of the wire contract, each with its type and its range.

Whether a name means anything under the chosen engine is for the answer to say, not for the schema.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from service.api import limits
from service.api.schemas.closed import Asked, ClosedSchema
from service.api.schemas.fields import (
    AskedField,
    Choice,
    Command,
    Document,
    Flag,
    ListOf,
    Moment,
    Name,
    Number,
    WholeNumber,
)
from service.domain.engines.plain import ENGINES
from service.domain.errors import Fault
from service.domain.spans import GRAPH_MODES

_COMMAND = (
    "An engine's command line instead of the fields it sets; in a body also a list of words, as a container's args."
)


def _count(name: str, about: str, example: int | None = None) -> WholeNumber:
    return WholeNumber(limits.SPANS[name], metadata=_about(about, example))


def _quantity(name: str, about: str, example: float | None = None) -> Number:
    return Number(limits.SPANS[name], metadata=_about(about, example))


def _name(about: str, example: str | None = None) -> Name:
    return Name(metadata=_about(about, example))


def _flag(about: str) -> Flag:
    return Flag(metadata=_about(about, None))


def _choice(options: Sequence[str], about: str) -> Choice:
    return Choice(options, metadata=_about(about, None))


def _list(entry: AskedField, about: str, most: int = limits.LIST_ENTRIES) -> ListOf:
    return ListOf(entry, most, metadata=_about(about, None))


def _about(about: str, example: object) -> dict[str, object]:
    return {"description": about} if example is None else {"description": about, "examples": [example]}


class Question(ClosedSchema):
    """The names that both questions have."""

    body_only = frozenset({"config", "lengths"})

    model = _name("Slug, Hugging Face id or alias. Required unless config is given or command names one.", "llama-2-7b")
    config = Document(metadata=_about("A published config.json, answered without being stored.", None))
    assume = _choice(["decoder"], "Take an unknown family with a standard decoder's fields as one, with a warning.")
    gpu = _name("Slug, alias or what the driver reports. Required unless gpus or memory is given.", "a100-sxm-80gb")
    gpu_count = _count("gpu_count", "Default: tensor × pipeline × data parallel, whose product it must equal.", 1)
    gpus = _list(
        Name(),
        "Each card by its name, in the order the engine numbers them, instead of gpu and gpu_count. Cards of several"
        " kinds: llama.cpp alone.",
    )
    context_tokens = _count("context_tokens", "What one sequence holds, prompt and output together.", 4096)
    context_limit_tokens = _count(
        "context_limit_tokens", "The longest sequence the engine is started for, at least context_tokens."
    )
    batch_size = _count("batch_size", "/fit: sequences in the whole deployment; /traffic: per replica.", 28)
    weight_dtype = _name("A name from /dtypes. Default: the checkpoint's own.", "fp16")
    kv_dtype = _name("A name from /dtypes, or auto: the compute dtype unless the checkpoint says otherwise.", "fp16")
    tensor_parallel = _count("tensor_parallel", "Ranks that share every layer. Default 1.", 1)
    pipeline_parallel = _count("pipeline_parallel", "Stages that share the layers out. Default 1.")
    data_parallel = _count("data_parallel", "Replicas. Default 1.")
    attention_data_parallel = _count("attention_data_parallel", "Inside tensor parallel; adds no GPUs.")
    expert_parallel = _flag("Experts are spread over the ranks instead of sliced. Default false.")
    decode_context_parallel = _count("decode_context_parallel", "Divides tensor_parallel; adds no GPUs. Default 1.")
    engine = _choice(ENGINES, "Default none: the arithmetic of a textbook.")
    engine_version = _name("Default: the newest version known.")
    command = Command(metadata=_about(_COMMAND, "vllm serve llama-2-7b --max-model-len 4096"))
    memory_utilization = _quantity("memory_utilization", "What the engine means by it. Default: the engine's; none: 1.")
    max_batched_tokens = _count("max_batched_tokens", "Tokens of one step. Default: the engine's.")
    max_sequences_limit = _count("max_sequences_limit", "Sequences the engine runs at most. Default: the engine's.")
    block_tokens = _count("block_tokens", "Tokens of a cache page. Default: the engine's.")
    enforce_eager = _flag("No captured graphs. Default: the engine's.")
    prefix_caching = _flag("Prefixes are shared. Default: the engine's.")
    async_scheduling = _flag("The next step is scheduled while this one runs. Default: the engine's.")
    attention_backend = _name("Default: the engine's.")
    hybrid_cache = _flag("Layers of different cache kinds get groups of their own. Default: the engine's.")
    speculative_method = _name("Default: none.")
    speculative_tokens = _count("speculative_tokens", "Tokens guessed per step.")
    draft_model = _name("The model that guesses.")
    gpu_layers = _count("gpu_layers", "Layers kept on the GPU.")
    cpu_expert_layers = _count(
        "cpu_expert_layers", "Layers, from the first on, whose routed experts stay in host memory; -1 for all."
    )
    cpu_tensors = _list(Name(), "Patterns of tensor names that stay in host memory, as --override-tensor has them.")
    tensor_split = _list(Number(limits.SPANS["tensor_split"]), "Share of each GPU, in any unit.")
    parallel_slots = _count("parallel_slots", "Slots that share the context.")
    max_loras = _count("max_loras", "Slots for adapters, each for one of a batch.")
    max_lora_rank = _count("max_lora_rank", "Their greatest rank. Default 16 with max_loras.")
    fully_sharded_loras = _flag(
        "Tensor parallelism divides both of their factors instead of one. Default: the engine's."
    )
    cpu_offload_bytes = _count("cpu_offload_bytes", "Weights kept in host memory, per GPU.")
    graph_mode = _choice(
        GRAPH_MODES,
        "Which graphs are captured: in pieces cut at attention, of whole steps, or both. Default: the engine's.",
    )
    graph_sizes = _list(
        WholeNumber(limits.SPANS["graph_sizes"]),
        "Tokens of each captured graph. Default: the engine's own sizes.",
        limits.GRAPH_SIZES,
    )
    graph_size_limit = _count("graph_size_limit", "The largest captured graph, in tokens. Default: the engine's.")
    moe_backend = _name("Default: the engine's.")
    sampler_backend = _name("Default: the engine's.")
    encoder_budget_tokens = _count("encoder_budget_tokens", "Tokens of images or audio in one step.")
    encoder_limits = _list(
        Name(), "Images, videos and audio in one prompt: image=2, or image=2@512x512 where those are profiled."
    )
    encoder_image_pixels = _count("encoder_image_pixels", "Of the largest image. Default: the model's own.")
    encoder_profiling = _flag("The start runs the encoder before it sizes its cache. Default true.")
    encoder_data_parallel = _flag("The encoder stands whole on every rank of tensor parallelism. Default false.")
    memory_bytes = _count("memory_bytes", "Per GPU; overrides the catalog's.", 80_000_000_000)
    gpus_memory_bytes = _list(
        WholeNumber(limits.SPANS["gpus_memory_bytes"]),
        "Memory of each GPU, in the order of gpus; overrides the catalog's.",
    )
    memory_basis = _choice(
        ["visible", "advertised"],
        "Which memory memory_bytes or the catalog's means. Default: advertised for engine none.",
    )
    memory_used_by_others_bytes = _count("memory_used_by_others_bytes", "Per GPU. Default 0.")
    reserve_bytes = _count("reserve_bytes", "Per GPU; overrides every modelled part. Engine none: 4 GiB.")
    kv_cache_bytes = _count("kv_cache_bytes", "Per GPU; sets the cache's share and skips the reserve.")
    parameters = _quantity("parameters", "Whole model; overrides the catalog's exact count.", 7.0e9)
    weight_bytes = _quantity("weight_bytes", "Whole model; overrides the catalog's.")
    bandwidth_bytes_per_second = _quantity("bandwidth_bytes_per_second", "Per GPU; overrides the catalog's.")
    peak_flops_per_second = _quantity("peak_flops_per_second", "Per GPU, dense; overrides the catalog's.")
    shared_prefix_tokens = _count("shared_prefix_tokens", "Prompt tokens that all sequences share. Default 0.")
    lengths = Document(metadata=_about("A length distribution beside the context.", None))
    calibration = _choice(["auto", "off"], "Whether to use what measurements taught. Default auto.")
    as_of = Moment(metadata=_about("Answer from the catalog and calibration as they were then. Default: now.", None))


_TRAFFIC_ONLY = ("prompt_tokens", "prefill_sequences", "curve_batch_sizes", "curve_context_tokens")


class FitQuestion(Question):
    """What `/fit` is asked."""

    elsewhere: ClassVar[Mapping[str, str]] = dict.fromkeys(_TRAFFIC_ONLY, "is asked of /traffic, not of /fit")


class TrafficQuestion(Question):
    """What `/traffic` is asked: prompts and curves besides."""

    prompt_tokens = _count("prompt_tokens", "Of each prompt whose prefill is quoted. Default: context_tokens.")
    prefill_sequences = _count("prefill_sequences", "Prompts whose prefill runs together. Default 1.")
    curve_batch_sizes = _list(WholeNumber(limits.SPANS["curve_batch_sizes"]), "Batch sizes of the rows under curve.")
    curve_context_tokens = _list(WholeNumber(limits.SPANS["curve_context_tokens"]), "Contexts of the rows under curve.")

    def contradictions(self, asked: Asked) -> list[Fault]:
        """Multiply before anything is built: the rows are every batch size with every context."""
        rows = len(asked.get("curve_batch_sizes", "1")) * len(asked.get("curve_context_tokens", "1"))
        if rows <= limits.CURVE_ROWS:
            return []
        detail = (
            f"curve_batch_sizes × curve_context_tokens make {rows:,} rows; at most {limits.CURVE_ROWS:,} are answered."
        )
        return [Fault("/curve_batch_sizes", detail)]


FIT_BODY = FitQuestion()
FIT_QUERY = FitQuestion.for_query()
TRAFFIC_BODY = TrafficQuestion()
TRAFFIC_QUERY = TrafficQuestion.for_query()
