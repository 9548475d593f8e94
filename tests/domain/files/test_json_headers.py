"""Headers in JSON: what safetensors wrote is read to the byte, and what lies is refused."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.domain.files import Tensor, gathered, index, read_safetensors, read_safetensors_json, safetensors
from service.domain.files.index import Index, read_index
from tests.computing import least_seconds
from tests.domain.files.written import (
    header,
    header_of,
    many_tensors,
    peak_bytes,
    pointer_or_none,
    refusal,
    safetensors_file,
)

SHAPES = {
    "model.embed_tokens.weight": (96, 64),
    "model.layers.0.mlp.up_proj.weight": (128, 64),
    "model.norm.weight": (64,),
}
A = {"dtype": "F16", "shape": [4, 2], "data_offsets": [0, 16]}
B = {"dtype": "F16", "shape": [2], "data_offsets": [16, 20]}
INDEX = {
    "metadata": {"total_size": 100},
    "weight_map": {"a": "model-1.safetensors", "lm_head.weight": "model-2.safetensors"},
}


def read(data: bytes) -> list[Tensor]:
    return list(read_safetensors(data, "/header"))


def test_a_header_gives_the_tensors_that_safetensors_wrote() -> None:
    tensors = {tensor.name: tensor for tensor in read(header_of(safetensors_file(SHAPES)))}

    assert {name: tensor.elements for name, tensor in tensors.items()} == {
        n: int(np.prod(s)) for n, s in SHAPES.items()
    }
    assert {(t.type, t.bytes) for t in tensors.values()} == {("F16", 2 * t.elements) for t in tensors.values()}


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.uint16, np.int64, np.bool_], ids=lambda of: of.__name__)
def test_a_type_takes_what_numpy_takes(dtype: type) -> None:
    (tensor,) = read(header_of(safetensors_file({"a": (3, 5)}, dtype)))

    assert tensor.bytes == np.zeros((3, 5), dtype).nbytes


def test_a_header_without_its_length_gives_the_same() -> None:
    data = header_of(safetensors_file(SHAPES))

    assert list(read_safetensors_json(data[8:], "")) == read(data)


@pytest.mark.parametrize(
    "data, pointer",
    [
        (b"", "/header"),
        (b"\x10\0\0\0", "/header"),
        (header({"a": A}, 2**63), "/header"),
        (header({"a": A}, 100_000_000) + b" " * 100_000_000, "/header"),
        (header({"a": A})[:-5], "/header"),
        (header({"a": A}, 10), "/header/a"),
        (header({"a": {**A, "dtype": "F17"}}), "/header/a/dtype"),
        (header({"a": {**A, "dtype": ["F16"]}}), "/header/a/dtype"),
        (header({"a": {**A, "shape": [2**62, 2**62]}}), "/header/a/shape"),
        (header({"a": {**A, "shape": [-4, -2]}}), "/header/a/shape"),
        (header({"a": {**A, "shape": [2**52, 2**52]}}), "/header/a/shape"),
        (header({"a": {**A, "shape": "4"}}), "/header/a/shape"),
        (header({"a": {**A, "data_offsets": [0, 17]}}), "/header/a/data_offsets"),
        (header({"a": {**A, "data_offsets": [0]}}), "/header/a/data_offsets"),
        (header({"a": {**A, "data_offsets": [16, 0]}}), "/header/a/data_offsets"),
        (header({"a": A, "b": {**B, "data_offsets": [12, 16]}}), "/header"),
        (header({"a": A, "b": {**B, "data_offsets": [20, 24]}}), "/header"),
        (header({"a": A, "b": A}), "/header"),
        (header({"a": 1}), "/header/a"),
        (header({"a" * 600: A}), "/header/" + "a" * 64),
        ((9).to_bytes(8, "little") + b'{"a": [[[' + b"[" * 10, "/header/a"),
        ((5).to_bytes(8, "little") + b"[1,2]", "/header"),
        ((4).to_bytes(8, "little") + b"{1:2", "/header"),
    ],
    ids=[
        "nothing",
        "no length",
        "a length of 2^63",
        "100 MB",
        "cut short",
        "a length too small",
        "dtype",
        "dtype list",
        "2^124 elements",
        "negative",
        "2^104 elements",
        "text as shape",
        "wrong offsets",
        "one offset",
        "backwards",
        "overlap",
        "gap",
        "same place",
        "no object",
        "long name",
        "deep",
        "list",
        "numbered",
    ],
)
def test_a_header_that_cannot_be_is_refused_where_it_lies(data: bytes, pointer: str) -> None:
    assert refusal(lambda: read(data)) == pointer


def test_what_a_header_says_of_itself_is_no_tensor() -> None:
    assert read(header({"__metadata__": {"format": "pt"}, "a": A})) == read(header({"a": A}))


def test_a_tensor_without_elements_takes_no_place() -> None:
    nothing = {"dtype": "F16", "shape": [0, 4], "data_offsets": [16, 16]}

    found = read(header({"a": A, "none": nothing, "b": B}))

    assert [(tensor.name, tensor.bytes) for tensor in found] == [("a", 16), ("none", 0), ("b", 4)]
    assert refusal(lambda: read(header({"a": A, "none": {**nothing, "data_offsets": [17, 17]}}))) == "/header"


def test_more_tensors_than_any_checkpoint_has_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (safetensors, index):
        monkeypatch.setattr(module, "MOST_TENSORS", 2)
    small, large = json.dumps(INDEX), json.dumps({**INDEX, "weight_map": dict.fromkeys("abc", "a.safetensors")})

    assert len(read(header({"a": A, "b": B}))) == 2
    assert refusal(lambda: read(header({"a": A, "b": B, "c": {**B, "data_offsets": [20, 24]}}))) == "/header"
    assert read_index(small.encode(), 2, "").tensors == 2
    assert refusal(lambda: read_index(large.encode(), 2, "")) == "/weight_map"


def test_more_bytes_than_any_checkpoint_has_are_refused() -> None:
    half = Tensor("a", "F16", 2**51, 2**52)

    assert gathered([half], 1, "", predicts=False).loaded_bytes == 2**52
    assert refusal(lambda: gathered([half, half], 1, "/header", predicts=False)) == "/header"


def test_a_total_may_be_written_with_a_point() -> None:
    assert read_index(json.dumps({**INDEX, "metadata": {"total_size": 100.0}}).encode(), 2, "").total_bytes == 100
    assert refusal(lambda: read_index(json.dumps({**INDEX, "metadata": {"total_size": 100.5}}).encode(), 2, "")) == (
        "/metadata/total_size"
    )


def test_values_without_end_are_refused() -> None:
    text = b'{"a":' + b"[" * 200_000

    assert refusal(lambda: read(len(text).to_bytes(8, "little") + text)) == "/header/a"


def many_files(count: int) -> bytes:
    name, file = "model.layers.{}.mlp.experts.{}.gate_proj.weight", "model-{:05d}-of-00163.safetensors"
    files = {name.format(n // 256, n % 256): file.format(n // 500) for n in range(count)}
    return json.dumps({"metadata": {"total_size": count}, "weight_map": files}).encode()


def test_a_header_takes_no_more_than_four_times_its_size() -> None:
    data = many_tensors(20_000)

    assert peak_bytes(lambda: gathered(read_safetensors(data, ""), 61, "", predicts=True)) < 2 * len(data)


def test_an_index_takes_no_more_than_four_times_its_size() -> None:
    data = many_files(20_000)

    assert peak_bytes(lambda: read_index(data, 61, "")) < 2 * len(data)


@pytest.mark.parametrize("made", [many_tensors, many_files], ids=["header", "index"])
def test_ten_times_the_tensors_take_ten_times_as_long(made: Callable[[int], bytes]) -> None:
    small, large = made(3_000), made(30_000)

    def read(data: bytes) -> object:
        if made is many_files:
            return read_index(data, 61, "")
        return gathered(read_safetensors(data, ""), 61, "", predicts=True)

    assert least_seconds(lambda: read(large)) < 25 * least_seconds(lambda: read(small))


def test_an_index_is_its_total_and_what_its_names_tell() -> None:
    assert read_index(json.dumps(INDEX).encode(), 2, "") == Index(100, 2, head=True)


def test_an_index_tells_of_prediction_layers() -> None:
    index = {**INDEX, "weight_map": {"model.layers.2.eh_proj.weight": "a.safetensors"}}

    assert read_index(json.dumps(index).encode(), 2, "").predicts
    assert not read_index(json.dumps(index).encode(), 3, "").predicts


@pytest.mark.parametrize(
    "index, pointer",
    [
        ({}, ""),
        ({"metadata": {}, "weight_map": {"a": "a.safetensors"}}, "/metadata/total_size"),
        ({**INDEX, "metadata": {"total_size": 2**63}}, "/metadata/total_size"),
        ({**INDEX, "metadata": {"total_size": -1}}, "/metadata/total_size"),
        ({**INDEX, "metadata": {"total_size": True}}, "/metadata/total_size"),
        ({**INDEX, "weight_map": {}}, ""),
        ({**INDEX, "weight_map": {"a": "model.safetensors.index.json"}}, "/weight_map"),
        ({**INDEX, "weight_map": {"a": {"b": {}}}}, "/weight_map"),
    ],
    ids=["empty", "no total", "total", "negative", "boolean", "no tensors", "itself", "objects"],
)
def test_an_index_that_cannot_be_is_refused_by_field(index: dict[str, Any], pointer: str) -> None:
    assert refusal(lambda: read_index(json.dumps(index).encode(), 2, "")) == pointer


def test_an_index_of_a_hundred_megabytes_is_refused_unread() -> None:
    data = b'{"weight_map": {' + b" " * 100_000_000

    assert refusal(lambda: read_index(data, 2, "/index")) == "/index"


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
_tensors = st.dictionaries(
    st.text(max_size=8),
    st.fixed_dictionaries(
        {}, optional={"dtype": st.sampled_from(["F16", "BF16"]) | _json, "shape": _json, "data_offsets": _json}
    )
    | _json,
    max_size=4,
)


@given(tensors=_tensors)
def test_any_object_is_read_as_a_header_or_refused(tensors: dict[str, Any]) -> None:
    pointer = pointer_or_none(lambda: read(header(tensors)))

    assert pointer is None or pointer.startswith("/header")


@settings(max_examples=300)
@given(text=st.binary(max_size=40) | st.text(alphabet='{}[]":,a1 \\', max_size=30).map(str.encode))
def test_any_bytes_are_read_as_json_or_refused(text: bytes) -> None:
    found = [
        pointer_or_none(lambda: read(len(text).to_bytes(8, "little") + text)),
        pointer_or_none(lambda: read(text)),
        pointer_or_none(lambda: read_index(text, 2, "/header")),
    ]

    assert all(pointer is None or pointer.startswith("/header") for pointer in found)


@given(index=_json | st.fixed_dictionaries({"metadata": _json, "weight_map": _json}))
def test_any_value_is_read_as_an_index_or_refused(index: Any) -> None:  # noqa: ANN401  # any JSON
    pointer = pointer_or_none(lambda: read_index(json.dumps(index).encode(), 2, "/index"))

    assert pointer is None or pointer.startswith("/index")
