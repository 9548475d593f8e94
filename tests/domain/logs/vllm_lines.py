"""Lines as vLLM prints them, for logs that a test puts together."""

from service.domain.logs import LogReading, read

VLLM = (
    "(EngineCore pid={pid}) INFO 01-01 00:00:00 [core.py:1] Initializing a V1 LLM engine (v{version}) with config:"
    " model='m', dtype=torch.bfloat16, max_seq_len={length}, tensor_parallel_size={ranks}, pipeline_parallel_size=1,"
    " data_parallel_size=1, quantization=None, enforce_eager=False, seed=0"
)
GIB = 1 << 30


def core(text: str, pid: int = 1) -> str:
    return f"(EngineCore pid={pid}) INFO 01-01 00:00:00 [x.py:1] {text}"


def worker(rank: int, text: str, pid: int = 0) -> str:
    return f"(Worker_TP{rank} pid={pid or 100 + rank}) INFO 01-01 00:00:00 [x.py:1] {text}"


def start(*lines: str, version: str = "0.19.0", length: int = 8192, ranks: int = 1) -> LogReading:
    return read([VLLM.format(pid=1, version=version, length=length, ranks=ranks), *lines])


def said(reading: LogReading, name: str) -> object:
    return reading.said[name].value if name in reading.said else None


def reasons(reading: LogReading, name: str) -> str:
    return "; ".join(each.reason for each in reading.left_out if name in each.what)
