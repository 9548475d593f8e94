"""Files as the formats' own libraries write them, with tensors of zeros, and what readers of them take."""

import json
import tracemalloc
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from safetensors.numpy import save

from service.domain.errors import ValidationError
from tests.computing import quickly

LENGTH_BYTES = 8


def safetensors_file(shapes: Mapping[str, tuple[int, ...]], dtype: Any = np.float16) -> bytes:  # noqa: ANN401  # numpy's own
    return save({name: np.zeros(shape, dtype) for name, shape in shapes.items()})


def header_of(data: bytes) -> bytes:
    """The part of a safetensors file before its data."""
    return data[: LENGTH_BYTES + int.from_bytes(data[:LENGTH_BYTES], "little")]


def header(tensors: dict[str, Any], length: int | None = None) -> bytes:
    """A header that says just this."""
    text = json.dumps(tensors).encode()
    return (len(text) if length is None else length).to_bytes(LENGTH_BYTES, "little") + text


def gguf_file(
    folder: Path, shapes: Mapping[str, tuple[int, ...]], kind: gguf.GGMLQuantizationType, tokens: int = 10
) -> bytes:
    """A file with a tokenizer, whose rows are quantized to `kind` where they can be."""
    path = folder / "written.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(2)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q4_K_M)
    writer.add_token_list([f"token {number}" for number in range(tokens)])
    writer.add_token_scores([0.0] * tokens)
    block, size = gguf.GGML_QUANT_SIZES[kind]
    for name, shape in shapes.items():
        rows = np.zeros((*shape[:-1], shape[-1] // block * size), np.uint8)
        writer.add_tensor(name, rows, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path.read_bytes()


def refusal(reader: Callable[[], object]) -> str:
    """The pointer of what is refused, in less than a second of computing."""

    def refused() -> ValidationError:
        with pytest.raises(ValidationError) as caught:
            reader()
        return caught.value

    return quickly(refused).faults[0].pointer


def peak_bytes(call: Callable[[], object]) -> int:
    """The most memory that a call had at once, beside what it was given."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def pointer_or_none(call: Callable[[], object]) -> str | None:
    """Where a reader refused what it was given; None where it did not."""
    try:
        call()
    except ValidationError as error:
        return error.faults[0].pointer
    return None


def many_tensors(count: int) -> bytes:
    """The header of a mixture of experts with so many tensors."""
    name = "model.layers.{}.mlp.experts.{}.gate_proj.weight_scale_inv"
    return header(
        {
            name.format(number // 256, number % 256): {
                "dtype": "BF16",
                "shape": [7168, 2048],
                "data_offsets": [number * 29360128, (number + 1) * 29360128],
            }
            for number in range(count)
        }
    )
