"""What a config's `quantization_config` says about the checkpoint's own number formats (accounting 2.1 and 7)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from service.domain.architecture import FormatRule
from service.domain.configs.fields import Fields, shown
from service.domain.configs.module_lists import Group, grouped_rules, listed, listed_formats, lists_modules
from service.domain.errors import Fault, NotSupported

_FOUR_BITS, _EIGHT_BITS = 4, 8
_BLOCKS: Mapping[tuple[int, ...], str] = {(): "fp8_tensor", (128, 128): "fp8_block128", (32, 32): "fp8_block32"}
_GROUP = 128
_CHANNEL = -1
_MIXED = "The checkpoint mixes number formats and does not say where; its weights are quoted as if all were {0}."
_COMPRESSED: Mapping[tuple[int, str, str | int | None], str] = {
    (_EIGHT_BITS, "float", "channel"): "fp8",
    (_EIGHT_BITS, "float", "tensor"): "fp8_tensor",
    (_EIGHT_BITS, "float", None): "fp8_tensor",
    (_EIGHT_BITS, "float", "block"): "fp8_block128",
    (_EIGHT_BITS, "int", "channel"): "w8a8",
    (_EIGHT_BITS, "int", _GROUP): "w8a16_g128",
    (_FOUR_BITS, "int", _CHANNEL): "w4a16_channel",
    (_FOUR_BITS, "int", _GROUP): "w4a16",
    (_FOUR_BITS, "int", 64): "w4a16_g64",
    (_FOUR_BITS, "int", 32): "w4a16_g32",
    (_FOUR_BITS, "float", 16): "nvfp4",
    (_FOUR_BITS, "float", 32): "mxfp4",
}
_AWQ: Mapping[tuple[int, int], str] = {(4, 128): "awq", (4, 64): "awq_g64", (4, 32): "awq_g32"}
_GPTQ: Mapping[tuple[int, int], str] = {
    (4, 128): "gptq",
    (4, 64): "gptq_g64",
    (4, 32): "gptq_g32",
    (4, _CHANNEL): "gptq_channel",
    (8, 128): "gptq_int8",
    (8, 32): "gptq_int8_g32",
    (8, _CHANNEL): "gptq_int8_channel",
}
_MODELOPT: Mapping[str, str] = {"FP8": "fp8_tensor", "NVFP4": "nvfp4", "W4A16_NVFP4": "nvfp4"}
_EVERY_LINEAR = "Linear"


class Formats(NamedTuple):
    """Names of number formats of the catalog that a checkpoint asks for; None where it asks for nothing."""

    weight: str | None = None
    cache: str | None = None
    warnings: tuple[str, ...] = ()
    rules: tuple[FormatRule, ...] = ()


def checkpoint_formats(fields: Fields) -> Formats:
    """Read them from the config; raises NotSupported for a scheme that no number format of the catalog describes."""
    quantization = fields.inner("quantization_config", "compression_config")
    if quantization is None:
        return Formats()
    method = (quantization.text("quant_method", "quant_algo") or "").casefold()
    reader = _METHODS.get(method)
    name = reader(quantization) if reader else None
    if name is None:
        scheme = shown(method) if method else "without a quant_method"
        which = "in the widths and groups that it states " if reader else ""
        raise NotSupported(Fault(quantization.pointer, f"The quantization scheme {scheme} is not known {which}here."))
    rules = _rules(quantization, method, name)
    warnings = (_MIXED.format(name),) if _is_mixed(quantization) and not rules else ()
    return Formats(name, _cache_format(quantization), warnings, rules)


def _rules(q: Fields, method: str, name: str) -> tuple[FormatRule, ...]:
    """Lists of modules left alone, then what groups and tables of modules say; the format's own list fills silence."""
    kept = listed(q)
    if method not in _GROUPED:
        return kept
    groups = [Group(own, tuple(targets)) for own, targets in _groups(q)]
    every = any(_EVERY_LINEAR in group.targets for group in groups)
    told = tuple(listed_formats(q, _MODELOPT)) + grouped_rules(q, groups)
    if told and not every:
        # What no group names is in no format at all.
        return (*kept, *told, FormatRule("", None, q.pointer))
    if not lists_modules(q):
        return told
    # A list that names what is left alone is whole: what it does not name is in the format, the head too.
    rest = (FormatRule("", name, q.pointer), FormatRule("lm_head", name, q.pointer))
    return (*kept, *told, *rest)


def _groups(q: Fields) -> list[tuple[str, list[str]]]:
    """The format and the targets of each group; refuses a group in a format that no other of the catalog describes."""
    groups = q.inner("config_groups")
    found = []
    for key in groups.values if groups else ():
        group = groups.inner(key) if groups else None
        weights = group.inner("weights") if group else None
        name = _scheme(weights) if weights else None
        if group is None or name is None:
            raise NotSupported(Fault(f"{q.pointer}/config_groups", f"The scheme of {shown(key)} is not known."))
        if name == "w8a8" and group.get("input_activations") is None:
            name = "w8a16"
        found.append((name, list(group.texts("targets"))))
    return found


def _fp8(q: Fields) -> str:
    found = _BLOCKS.get(q.integers("weight_block_size"))
    if found is None:
        raise q.refuse("weight_block_size", "Only blocks of 128 x 128 and of 32 x 32 are known.")
    return found


def _grouped(formats: Mapping[tuple[int, int], str]) -> Callable[[Fields], str | None]:
    def read(q: Fields) -> str | None:
        group = q.integer("group_size", "q_group_size", default=_GROUP, least=_CHANNEL)
        return formats.get((q.integer("bits", "w_bit", default=_FOUR_BITS), group))

    return read


def _compressed(q: Fields) -> str | None:
    """The format of the first group, which most checkpoints have no other than."""
    found = _groups(q)
    return found[0][0] if found else None


def _scheme(weights: Fields) -> str | None:
    bits, kind = weights.integer("num_bits", default=_EIGHT_BITS), weights.text("type") or ""
    strategy, group_size = weights.text("strategy"), weights.optional("group_size", least=_CHANNEL)
    if bits == _EIGHT_BITS and strategy != "group":
        return _COMPRESSED.get((bits, kind, strategy))
    silent = _CHANNEL if strategy == "channel" else _GROUP if kind == "int" else 16
    return _COMPRESSED.get((bits, kind, silent if group_size is None else group_size))


def _modelopt(q: Fields) -> str | None:
    if _is_mixed(q):
        layers = q.inner("quantized_layers")
        texts = {str(value) for value in layers.values.values()} if layers else {name for name, _ in _groups(q)}
        return "nvfp4" if any("NVFP4" in text.upper() for text in texts) else "fp8_tensor"
    algorithm = q.text("quant_algo") or (q.inner("quantization") or q).text("quant_algo") or ""
    return _MODELOPT.get(algorithm.upper())


def _is_mixed(q: Fields) -> bool:
    return q.text("quant_algo") == "MIXED_PRECISION"


def _bitsandbytes(q: Fields) -> str | None:
    if q.flag("load_in_4bit", default=False):
        return "nf4" if q.flag("bnb_4bit_use_double_quant", default=False) else "nf4_single"
    return "bnb_int8" if q.flag("load_in_8bit", default=False) else None


def _cache_format(q: Fields) -> str | None:
    inner = q.inner("quantization")
    scheme = q.get("kv_cache_scheme", "kv_cache_quant_algo") or (inner.get("kv_cache_quant_algo") if inner else None)
    if not scheme:
        return None
    return "nvfp4" if isinstance(scheme, str) and "NVFP4" in scheme.upper() else "fp8"


_METHODS: Mapping[str, Callable[[Fields], str | None]] = {
    "fp8": _fp8,
    "awq": _grouped(_AWQ),
    "gptq": _grouped(_GPTQ),
    "gptq_marlin": _grouped(_GPTQ),
    "auto-round": _grouped(_GPTQ),
    "compressed-tensors": _compressed,
    "modelopt": _modelopt,
    "modelopt_fp4": _modelopt,
    "bitsandbytes": _bitsandbytes,
    "mxfp4": lambda _q: "mxfp4",
    "fbgemm_fp8": lambda _q: "fp8",
}
_GROUPED = frozenset({"compressed-tensors", "modelopt", "modelopt_fp4"})
