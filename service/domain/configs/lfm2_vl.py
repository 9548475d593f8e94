"""lfm2_vl (LFM2-VL): siglip2 and a two-layer projection of joined patches before an lfm2."""

from __future__ import annotations

from service.domain.architecture import Architecture, Module
from service.domain.configs import vision
from service.domain.configs.fields import Fields
from service.domain.configs.wrapping import Tying, compose, encoder, read_text

MODEL_TYPES = ("lfm2_vl",)


def read(fields: Fields) -> Architecture:
    """A norm before the projection is an option; the first release has it, later ones do not."""
    text = read_text(fields, "lfm2", Tying(silent=True))

    def encode(inner: Fields) -> list[Module]:
        tower = vision.by_type(inner, "siglip2_vision_model")
        joined = (
            vision.width(inner, "siglip2_vision_model") * fields.integer("downsample_factor", default=2, most=64) ** 2
        )
        middle = fields.integer("projector_hidden_size", default=2560)
        biased = fields.flag("projector_bias", default=True)
        tower.name = "projector"
        if fields.flag("projector_use_layernorm", default=True):
            tower.norm("norm", joined)
        tower.linear("linear_1", middle, joined, bias=biased)
        tower.linear("linear_2", text.hidden_size, middle, bias=biased)
        return tower.modules

    modules, notes = encoder(fields, "vision_config", encode)
    return compose(fields, text, modules, *notes)
