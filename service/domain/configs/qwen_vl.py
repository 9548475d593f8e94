"""qwen2_vl, qwen2_5_vl and the thinker of qwen2_5_omni: their encoders before a qwen2."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from service.domain.architecture import Architecture
from service.domain.configs import audio, qwen_vision
from service.domain.configs.fields import Fields
from service.domain.configs.wrapping import Tying, compose, encoder, read_text

MODEL_TYPES = ("qwen2_vl", "qwen2_5_vl", "qwen2_5_omni", "qwen2_5_omni_thinker")
_TEXT: Mapping[str, Any] = {
    "vocab_size": 152064,
    "hidden_size": 8192,
    "intermediate_size": 29568,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "max_position_embeddings": 32768,
    "max_window_layers": 80,
}
_OMNI: Mapping[str, Any] = {
    **_TEXT,
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "max_window_layers": 28,
}
_RENAMED = {"qwen2_vl_text": "qwen2", "qwen2_5_vl_text": "qwen2", "qwen2_5_omni_text": "qwen2"}
_SPEECH = "The talker and its vocoder, which make speech of the answer, are not counted."


def read(fields: Fields) -> Architecture:
    """Older files state the decoder's sizes beside the vision config."""
    kind = fields.text("model_type") or "qwen2_vl"
    if kind == "qwen2_5_omni":
        return read_omni(fields, _thinker)
    if kind == "qwen2_5_omni_thinker":
        return _thinker(fields)
    text = read_text(fields, "qwen2", Tying(inner=True), defaults=_TEXT, renamed=_RENAMED)
    read_tower = qwen_vision.second if kind == "qwen2_vl" else qwen_vision.half
    modules, notes = encoder(fields, "vision_config", read_tower)
    return compose(fields, text, modules, *notes)


def read_omni(fields: Fields, read_thinker: Callable[[Fields], Architecture]) -> Architecture:
    """Read a model that hears, sees and speaks: its thinker answers and is what engines serve."""
    inner = fields.inner("thinker_config")
    if inner is None:
        raise fields.refuse("thinker_config", "The config has no thinker_config.")
    outer = {k: v for k, v in fields.values.items() if k in {"quantization_config", "torch_dtype", "dtype"}}
    thinker = read_thinker(Fields({**outer, **inner.values}, inner.pointer))
    return compose(fields, thinker, (), _SPEECH)


def _thinker(fields: Fields) -> Architecture:
    text = read_text(fields, "qwen2", Tying(), defaults=_OMNI, renamed=_RENAMED)
    pictures, notes = encoder(fields, "vision_config", qwen_vision.half)
    sounds, more = encoder(fields, "audio_config", audio.omni)
    return compose(fields, text, [*pictures, *sounds], *notes, *more)
