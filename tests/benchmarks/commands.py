"""A question by `command` against the same by fields: the whole request, CPU time, best of the rounds.

Every command of a round differs, so that nothing is remembered that fields would not have remembered as well.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count, islice

from flask import Flask

from tests.benchmarks import questions as asking
from tests.benchmarks.calling import Contender, application, asks, interleaved
from tests.benchmarks.figures import Figure, microseconds, ratio
from tests.benchmarks.questions import Asked
from tests.benchmarks.workplace import Workplace

_LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
_GPU = "h100-sxm-80gb"
_VLLM = (
    f"vllm serve {_LLAMA} --tensor-parallel-size 2 --max-model-len {{tokens}} --gpu-memory-utilization 0.9"
    " --enable-prefix-caching --host 0.0.0.0 --port 8000"
)
_SGLANG = (
    f"python3 -m sglang.launch_server --model-path {_LLAMA} --tp 2 --context-length {{tokens}}"
    " --mem-fraction-static 0.85 --host 0.0.0.0 --port 30000"
)
_TRTLLM = f"trtllm-serve {_LLAMA} --tp_size 2 --max_seq_len {{tokens}} --max_batch_size 64 --port 8000"
_LLAMA_CPP = "llama-server -m /models/Llama-3.1-8B-Instruct-Q4_K_M.gguf -c {tokens} -ngl 99 -fa on --port 8080"
COMMANDS: Mapping[str, tuple[str, Asked]] = {
    "vllm": (
        _VLLM,
        {"model": _LLAMA, "tensor_parallel": 2, "memory_utilization": 0.9, "prefix_caching": True},
    ),
    "sglang": (_SGLANG, {"model": _LLAMA, "tensor_parallel": 2, "memory_utilization": 0.85}),
    "tensorrt-llm": (_TRTLLM, {"model": _LLAMA, "tensor_parallel": 2, "max_sequences_limit": 64}),
    "llama.cpp": (
        _LLAMA_CPP,
        {"model": "Llama-3.1-8B-Instruct-Q4_K_M", "gpu_layers": 99, "attention_backend": "on"},
    ),
}
"""One question of each engine as most people ask it, `tokens` apart: its command, and its fields."""


def measure(place: Workplace) -> list[Figure]:
    with application(place.sqlite_url) as app:
        pairs = {
            engine: (
                _asked(app, place, partial(_by_command, line)),
                _asked(app, place, partial(_by_fields, engine, fields)),
            )
            for engine, (line, fields) in COMMANDS.items()
        }
        place.say("commands: /fit by command and by fields in turn")
        interleaved([contender for pair in pairs.values() for contender in pair], place.effort.rounds)
    return [figure for engine, pair in pairs.items() for figure in _figures(engine, *pair)]


def _figures(engine: str, command: Contender, fields: Contender) -> list[Figure]:
    return [
        microseconds(f"commands: /fit by fields, {engine}", fields.best),
        ratio(f"commands: /fit by command, to by fields, {engine}", command.best, fields.best, 1.5),
    ]


def _by_command(line: str, tokens: int) -> Asked:
    return {"command": line.format(tokens=tokens)}


def _by_fields(engine: str, fields: Asked, tokens: int) -> Asked:
    return {**fields, "engine": engine, "context_tokens": tokens, "context_limit_tokens": tokens}


def _asked(app: Flask, place: Workplace, question: Callable[[int], Asked]) -> Contender:
    tokens = count(4096)

    def bodies() -> Sequence[bytes]:
        asked = islice(tokens, max(1, place.effort.asked // 4))
        return [asking.body({"gpu": _GPU, **question(length)}) for length in asked]

    return asks(app, "/fit", bodies, "200")
