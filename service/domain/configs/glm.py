"""glm and glm4 (the dense models in their library form), and the decoder of glm_ocr: a stated head width."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture, Module
from service.domain.configs import blocks, dense, moe, prediction_blocks
from service.domain.configs.base import Decoder, decoder
from service.domain.configs.fields import Fields

MODEL_TYPES = ("glm", "glm4", "glm_ocr_text")
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 151552,
    "hidden_size": 4096,
    "intermediate_size": 13696,
    "num_hidden_layers": 40,
    "num_attention_heads": 32,
    "num_key_value_heads": 2,
    "max_position_embeddings": 131072,
    "head_dim": 128,
    "partial_rotary_factor": 0.5,
}
_OCR: Mapping[str, Any] = {
    "vocab_size": 59392,
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 16,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
}


def read(fields: Fields) -> Architecture:
    """Of these glm has biases on query, key and value; the others norm behind attention and MLP as well as before."""
    kind = fields.text("model_type")
    if kind == "glm_ocr_text":
        return _read_ocr(fields.defaulting(_OCR))
    fields = fields.defaulting(DEFAULTS)
    norms = 4 if kind == "glm4" else 2
    return dense.read(fields, dense.Layer(qkv_bias=fields.flag("attention_bias", default=True), norms=norms))


def _read_ocr(fields: Fields) -> Architecture:
    """No biases, whatever the file says, and prediction layers that are stored with table and head of their own."""
    shape, layer = decoder(fields), dense.Layer(norms=4)
    return dense.read(fields, layer, shape=shape, extra=_predicted(fields, shape, layer))


def _predicted(fields: Fields, shape: Decoder, layer: dense.Layer) -> tuple[Module, ...]:
    behind = moe.predicted_layers(fields, shape)
    if not behind:
        return ()
    mlp = blocks.gated_mlp(shape.hidden, fields.integer("intermediate_size"), behind)
    tables = prediction_blocks.tables(shape.vocabulary, shape.hidden, behind)
    return (*moe.prediction(shape, layer, mlp, behind), *blocks.prediction(tables))
