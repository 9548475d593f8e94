"""phi3_v (Phi-3 and 3.5 vision): clip's large encoder and a two-layer projection before a phi3."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture, Module
from service.domain.configs import vision
from service.domain.configs.fields import Fields
from service.domain.configs.wrapping import compose, encoder, read_text

MODEL_TYPES = ("phi3_v",)
# The encoder whose name is all that files say of it: openai/clip-vit-large-patch14-336.
_CLIP: Mapping[str, Any] = {
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 24,
    "image_size": 336,
    "patch_size": 14,
}
_JOINED = 4


def read(fields: Fields) -> Architecture:
    """Four patches are joined; two vectors part pictures and rows of them."""
    text = read_text(fields, "phi3", renamed={"phi3_v": "phi3"})

    def encode(inner: Fields) -> list[Module]:
        named = inner.text("model_name") or "openai/clip-vit-large-patch14-336"
        if named.rpartition("/")[2] != "clip-vit-large-patch14-336":
            raise inner.refuse("model_name", "The only encoder known before a phi3 is clip-vit-large-patch14-336.")
        tower = vision.clip(Fields(_CLIP, inner.pointer))
        joined = _JOINED * inner.integer("image_dim_out", default=1024)
        tower.name = "projector"
        tower.vector("separators", joined, 2)
        tower.linear("linear_1", text.hidden_size, joined)
        tower.linear("linear_2", text.hidden_size, text.hidden_size)
        return tower.modules

    modules, notes = encoder(fields, "img_processor", encode)
    return compose(fields, text, modules, *notes)
