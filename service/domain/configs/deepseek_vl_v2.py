"""deepseek_vl_v2 (DeepSeek-VL2, OCR and OCR-2) and unlimited-ocr: encoders that go by a name, before a deepseek_v2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture, Module, ModuleKind
from service.domain.configs import vision
from service.domain.configs.encoder_blocks import Tower
from service.domain.configs.fields import Fields, shown
from service.domain.configs.sam import sam
from service.domain.configs.wrapping import compose, encoder, read_text

MODEL_TYPES = ("deepseek_vl_v2", "unlimited-ocr")
# The name decides; sizes that a file repeats are read by no code.
_SIGLIP: Mapping[str, Any] = {
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "num_hidden_layers": 27,
    "patch_size": 14,
    "image_size": 384,
}
_CLIP: Mapping[str, Any] = {
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 24,
    "patch_size": 14,
    "image_size": 224,
}
# The decoder that encodes, the smallest qwen2, and what it asks of pictures of 768 and of 1,024 pixels.
_WIDTH, _KV_WIDTH, _INNER, _LAYERS = 896, 128, 4864, 24
_QUESTIONS = 144 + 256
_PROJECTOR: Mapping[str, Any] = {"input_dim": 1152, "n_embed": 2048, "depth": 2, "mlp_ratio": 1, "downsample_ratio": 2}
_MOST_DEPTH = 64
_LET_GO = (
    "Generated tokens but the last are let go, the prompt is not: a sequence is counted as if all were its prompt."
)


def read(fields: Fields) -> Architecture:
    """Vectors part tiles and rows of them."""
    text = read_text(fields, "deepseek_v2", renamed=dict.fromkeys(MODEL_TYPES, "deepseek_v2"))
    tag = fields.text("tile_tag") or "2D"
    if tag != "2D":
        raise fields.refuse("tile_tag", f"Only tiles in two dimensions, 2D, are known, not {shown(tag)}.")

    def encode(inner: Fields) -> list[Module]:
        encoded, separators = _encoders(inner)
        return [*encoded, *_projector(fields, separators)]

    modules, notes = encoder(fields, "vision_config", encode)
    if fields.text("model_type") == "unlimited-ocr":
        notes = (*notes, _LET_GO)
    return compose(fields, text, modules, *notes)


def _encoders(fields: Fields) -> tuple[list[Module], int]:
    """Modules of the encoder that is named, and how many vectors part its tiles."""
    name = fields.text("model_name") or "siglip_so400m_patch14_384"
    if name == "siglip_so400m_patch14_384":
        # With its pooling head, which is stored and not used.
        return vision.siglip(Fields(_SIGLIP)).modules, 2
    if name == "deeplip_b_l":
        return [*sam(Fields({})).modules, *vision.clip(Fields(_CLIP), normed_behind=False).modules], 2
    if name == "deepencoderv2":
        return [*sam(Fields({"downsample_channels": (512, _WIDTH)})).modules, *_asking().modules], 1
    raise fields.refuse("model_name", f"The encoder {shown(name)} is not known before a deepseek_v2.")


def _asking() -> Tower:
    """A decoder without a table that answers learnt questions about a picture."""
    tower = Tower(ModuleKind.VISION, "qwen2_model")
    tower.linear("attention.q", _WIDTH, _WIDTH, _LAYERS)
    tower.linear("attention.kv", 2 * _KV_WIDTH, _WIDTH, _LAYERS)
    tower.linear("attention.out", _WIDTH, _WIDTH, _LAYERS, bias=False)
    tower.gated_mlp(_WIDTH, _INNER, _LAYERS, bias=False)
    tower.norm("norms", _WIDTH, 2 * _LAYERS + 1, bias=False)
    tower.matrix("questions", _QUESTIONS, _WIDTH)
    return tower


def _projector(outer: Fields, separators: int) -> list[Module]:
    """One projection, or an MLP over a square of tokens."""
    fields = outer.inner("projector_config") or Fields({}, f"{outer.pointer}/projector_config")
    fields = fields.defaulting(_PROJECTOR)
    out, width = fields.integer("n_embed"), fields.integer("input_dim")
    kind = fields.text("projector_type") or "downsample_mlp_gelu"
    tower = Tower(ModuleKind.VISION, "projector")
    tower.vector("separators", out, separators)
    if kind == "linear":
        tower.linear("linear", out, width)
    elif kind == "downsample_mlp_gelu":
        middle = out * fields.integer("mlp_ratio", most=_MOST_DEPTH)
        tower.linear("linear_1", middle, width * fields.integer("downsample_ratio", most=_MOST_DEPTH) ** 2)
        tower.linear("linear_between", middle, middle, max(0, fields.integer("depth", most=_MOST_DEPTH) - 2))
        tower.linear("linear_2", out, middle)
    else:
        raise fields.refuse("projector_type", f"The projection {shown(kind)} is not known before a deepseek_v2.")
    return tower.modules
