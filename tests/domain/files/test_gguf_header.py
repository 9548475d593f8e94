"""Headers of GGUF files: what the format's own library wrote is read to the byte, and what lies is refused."""

import struct
from io import BytesIO
from pathlib import Path

import gguf
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service.domain.files import gguf as reader
from service.domain.files import read_gguf
from service.domain.files.gguf import BLOCKS
from tests.domain.files.written import gguf_file, peak_bytes, pointer_or_none, refusal

ALIGNMENT = "/gguf/metadata/general.alignment"
GGUF_SHAPES = {"token_embd.weight": (96, 256), "blk.0.ffn_up.weight": (128, 512), "output.weight": (96, 256)}


def gguf_refusal(data: bytes) -> str:
    return refusal(lambda: list(read_gguf(BytesIO(data).read, "/gguf")[1]))


@pytest.fixture(scope="module")
def llama_gguf(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return gguf_file(tmp_path_factory.mktemp("gguf"), GGUF_SHAPES, gguf.GGMLQuantizationType.Q4_K)


def test_gguf_tensors_are_those_that_its_library_wrote(llama_gguf: bytes, tmp_path: Path) -> None:
    path = tmp_path / "whole.gguf"
    path.write_bytes(llama_gguf)
    known = gguf.GGUFReader(path)
    head, tensors = read_gguf(BytesIO(llama_gguf[: known.data_offset]).read, "")

    assert [(t.name, t.type, t.elements, t.bytes) for t in tensors] == [
        (t.name, t.tensor_type.name, int(t.n_elements), int(t.n_bytes)) for t in known.tensors
    ]
    assert head.file_type == "q4_k_m"


def test_no_more_of_a_gguf_file_than_its_header_is_read(llama_gguf: bytes) -> None:
    stream = BytesIO(llama_gguf)
    list(read_gguf(stream.read, "")[1])

    assert stream.tell() < 2000 < len(llama_gguf)


def test_tensor_types_are_those_of_the_library() -> None:
    known = {int(kind): (kind.name, *sizes) for kind, sizes in gguf.GGML_QUANT_SIZES.items()}
    # Q8_1 is a type of memory that no file holds.
    del known[int(gguf.GGMLQuantizationType.Q8_1)]

    assert known == BLOCKS


def test_a_gguf_header_cut_short_anywhere_is_refused(llama_gguf: bytes) -> None:
    stream = BytesIO(llama_gguf)
    list(read_gguf(stream.read, "")[1])

    for length in range(0, stream.tell(), 7):
        assert gguf_refusal(llama_gguf[:length]).startswith("/gguf")


def gguf_header(version: int = 3, tensors: int = 0, pairs: int = 0, rest: bytes = b"") -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, pairs) + rest


def pair(key: str, kind: int, value: bytes) -> bytes:
    return struct.pack("<Q", len(key)) + key.encode() + struct.pack("<I", kind) + value


def tensor_info(name: str, shape: list[int], kind: int = 0, offset: int = 0) -> bytes:
    dimensions = b"".join(struct.pack("<Q", n) for n in shape)
    return (
        struct.pack("<Q", len(name))
        + name.encode()
        + struct.pack("<I", len(shape))
        + dimensions
        + struct.pack("<IQ", kind, offset)
    )


def arrays(depth: int) -> bytes:
    return struct.pack("<IQ", 9, 1) * depth + struct.pack("<IQ", 0, 0)


@pytest.mark.parametrize(
    "data, pointer",
    [
        (b"GGML" + b"\0" * 40, "/gguf"),
        (gguf_header(version=1), "/gguf/version"),
        (gguf_header(version=0x03000000), "/gguf/version"),
        (gguf_header(tensors=2**63), "/gguf/tensor_count"),
        (gguf_header(pairs=2**63), "/gguf/metadata_kv_count"),
        (gguf_header(tensors=1000), "/gguf"),
        (gguf_header(pairs=1, rest=struct.pack("<Q", 2**63)), "/gguf/metadata"),
        (gguf_header(pairs=1, rest=pair("a", 8, struct.pack("<Q", 2**63))), "/gguf/metadata/a"),
        (gguf_header(pairs=1, rest=pair("a", 9, struct.pack("<IQ", 5, 2**62))), "/gguf/metadata/a"),
        (gguf_header(pairs=1, rest=pair("a", 9, struct.pack("<IQ", 8, 2**62))), "/gguf/metadata/a"),
        (gguf_header(pairs=1, rest=pair("a", 9, arrays(3000))), "/gguf/metadata/a"),
        (gguf_header(pairs=1, rest=pair("a", 13, b"")), "/gguf/metadata/a"),
        (gguf_header(pairs=1, rest=pair("general.alignment", 4, struct.pack("<I", 0))), ALIGNMENT),
        (gguf_header(pairs=1, rest=pair("general.alignment", 4, struct.pack("<I", 33))), ALIGNMENT),
        (gguf_header(pairs=1, rest=pair("general.alignment", 8, struct.pack("<Q", 0))), ALIGNMENT),
        (gguf_header(tensors=1, rest=tensor_info("a", [2**40, 2**40])), "/gguf/tensors/0"),
        (gguf_header(tensors=1, rest=tensor_info("a", [0, 4])), "/gguf/tensors/0"),
        (gguf_header(tensors=1, rest=tensor_info("a", [4] * 9)), "/gguf/tensors/0"),
        (gguf_header(tensors=1, rest=tensor_info("a", [100], kind=12)), "/gguf/tensors/0"),
        (gguf_header(tensors=1, rest=tensor_info("a", [256], kind=77)), "/gguf/tensors/0"),
        (gguf_header(tensors=1, rest=tensor_info("a", [8], offset=32)), "/gguf/tensors/0"),
        (gguf_header(tensors=2, rest=tensor_info("a", [8]) + tensor_info("b", [8], offset=0)), "/gguf/tensors/1"),
        (gguf_header(tensors=2, rest=tensor_info("a", [8]) + tensor_info("a", [8], offset=32)), "/gguf/tensors/1"),
    ],
    ids=[
        "magic", "version 1", "other end first", "2^63 tensors", "2^63 pairs", "no tensors", "a key of 2^63",
        "a text of 2^63", "2^62 numbers", "2^62 texts", "deep", "kind", "alignment 0", "alignment 33", "alignment text",
        "2^80 elements", "no elements", "9 dimensions", "a broken row", "type", "gap", "overlap", "twice",
    ],
)  # fmt: skip
def test_a_gguf_header_that_cannot_be_is_refused_where_it_lies(data: bytes, pointer: str) -> None:
    assert gguf_refusal(data) == pointer


@pytest.mark.parametrize("alignment", [8, 64])
def test_tensors_lie_where_the_files_own_alignment_puts_them(alignment: int) -> None:
    said = pair("general.alignment", 4, struct.pack("<I", alignment))

    def data(offset: int) -> bytes:
        infos = tensor_info("a", [2]) + tensor_info("b", [8], offset=offset)
        return gguf_header(tensors=2, pairs=1, rest=said + infos)

    header, tensors = read_gguf(BytesIO(data(alignment)).read, "")

    assert header.alignment == alignment
    assert [(tensor.name, tensor.bytes) for tensor in tensors] == [("a", 8), ("b", 32)]
    assert gguf_refusal(data(32)) == "/gguf/tensors/1"


def test_many_small_parts_are_no_longer_than_a_header_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = b"".join(pair(f"key.{number}", 4, b"\0" * 4) for number in range(10))
    data = gguf_header(pairs=10, rest=pairs)

    monkeypatch.setattr(reader, "MOST_HEADER_BYTES", len(data))
    assert list(read_gguf(BytesIO(data).read, "")[1]) == []
    monkeypatch.setattr(reader, "MOST_HEADER_BYTES", len(data) - 5)
    assert gguf_refusal(data) == "/gguf"


def test_a_gguf_header_without_end_is_refused() -> None:
    assert gguf_refusal(
        gguf_header(pairs=1, rest=pair("a", 8, struct.pack("<Q", 100_000_000)) + b" " * 100_000_000)
    ) == ("/gguf/metadata/a")


def test_a_long_vocabulary_is_read_without_being_kept(tmp_path: Path) -> None:
    data = gguf_file(tmp_path, {"a": (4, 32)}, gguf.GGMLQuantizationType.Q8_0, tokens=50_000)

    assert peak_bytes(lambda: list(read_gguf(BytesIO(data).read, "")[1])) < len(data) // 4


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=300)
@given(data=st.data())
def test_any_gguf_bytes_are_read_or_refused(llama_gguf: bytes, data: st.DataObject) -> None:
    spoilt = bytearray(llama_gguf[:1500])
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(spoilt) - 1))
        spoilt[at : at + 1] = data.draw(st.binary(min_size=0, max_size=9))
    pointer = pointer_or_none(lambda: list(read_gguf(BytesIO(spoilt).read, "/gguf")[1]))

    assert pointer is None or pointer.startswith("/gguf")
