"""The rotary tables that engines keep: how wide and how long they are beside the keys and the published context."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from service.domain.architecture import Rotary
from service.domain.configs.fields import MAX_SIZE

if TYPE_CHECKING:
    from service.domain.configs.fields import Fields

_SHARES = ("partial_rotary_factor", "rotary_pct", "rotary_emb_fraction")
# Scalings whose table has a row for every position of the scaled context (vLLM, rotary_embedding/ of 0.4 to 0.19);
# llama3 and longrope bend frequencies over the published context and add no rows.
_STRETCHED = frozenset({"linear", "dynamic"})
_FROM_ORIGINAL = frozenset({"yarn", "deepseek_yarn"})
# Families whose uploads all state sections for pictures, though some copies of their configs leave them out.
PICTURED = frozenset(
    {"qwen2_vl", "qwen2_5_vl", "qwen2_5_omni", "qwen2_5_omni_thinker", "qwen3_vl", "qwen3_vl_moe"}
    | {"qwen3_5", "qwen3_5_moe", "qwen3_5_text", "qwen3_5_moe_text", "qwen3_omni_moe", "qwen3_omni_moe_thinker"}
    | {"glm_ocr", "paddleocr_vl", "qwen4_exp", "qwen4_exp_text"}
)
_TWO_SETS = frozenset({"longrope", "su"})
# What the config classes of these families put where the file is silent (transformers 5.24, Phi3Config and its likes).
_SHORT_TOKENS: Final[Mapping[str, int]] = {"phi3": 4096, "phi4_multimodal": 4096}
# Families whose config class takes the number out of the scaling itself.
_SHORT_IN_SCALING = frozenset({"phimoe"})
_LONGEST_STRETCH = 1024.0
_NO_SCALING: Mapping[str, Any] = {}


def rotary(fields: Fields, context_tokens: int | None) -> Rotary:
    """Read the tables; a value that means nothing is no scaling, for no cache depends on it."""
    stated = _object(fields.get("rope_parameters", "rope_scaling"))
    scaling = _object(stated.get("full_attention", stated))
    share = scaling.get("partial_rotary_factor", fields.get(*_SHARES))
    return Rotary(
        share=_within(share, most=1.0),
        stretch=_stretch(scaling, context_tokens),
        pictures=bool(scaling.get("mrope_section")) or fields.get("model_type") in PICTURED,
        local=fields.get("rope_local_base_freq") is not None or "sliding_attention" in stated,
        short_tokens=_short_tokens(fields, scaling),
    )


def rescaled(former: Rotary, scaling: Mapping[str, Any], context_tokens: int | None) -> Rotary:
    """The tables where the positions are scaled otherwise than published."""
    return former._replace(stretch=_stretch(scaling, context_tokens), short_tokens=None)


def kind_of(scaling: Mapping[str, Any]) -> str:
    """The kind of a scaling; empty where it says none."""
    kind = scaling.get("rope_type", scaling.get("type"))
    return kind if isinstance(kind, str) else ""


def _short_tokens(fields: Fields, scaling: Mapping[str, Any]) -> int | None:
    if kind_of(scaling) not in _TWO_SETS:
        return None
    family = str(fields.get("model_type"))
    name = "original_max_position_embeddings"
    stated = fields.get(name) or (scaling.get(name) if family in _SHORT_IN_SCALING else None)
    found = stated or _SHORT_TOKENS.get(family)
    return found if type(found) is int and found > 0 else None


def _stretch(scaling: Mapping[str, Any], context_tokens: int | None) -> float:
    kind = kind_of(scaling)
    factor = _within(scaling.get("factor"), most=_LONGEST_STRETCH)
    if kind in _STRETCHED:
        return factor
    original = scaling.get("original_max_position_embeddings")
    if kind in _FROM_ORIGINAL and context_tokens and isinstance(original, int) and 0 < original <= MAX_SIZE:
        return _within(factor * original / context_tokens, most=_LONGEST_STRETCH)
    return 1.0


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else _NO_SCALING


def _within(value: object, most: float) -> float:
    """The number where it lies above 0 and within `most`, else 1."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= most:
        return 1.0
    return float(value)
