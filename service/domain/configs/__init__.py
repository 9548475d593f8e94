"""Readers from a published `config.json` to the normal form, one module for each family.

A family module has `MODEL_TYPES`, the `model_type` words it answers to, and `read(fields) -> Architecture`. Adding a
family is adding a module here and naming it in `_FAMILIES`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

from service.domain.architecture import Architecture
from service.domain.configs import (
    afmoe,
    apertus,
    arcee,
    arctic,
    baichuan,
    bailing_moe_v2,
    bamba,
    bloom,
    chatglm,
    cohere,
    cohere2,
    dbrx,
    deepseek_v3,
    deepseek_v4,
    deepseek_v32,
    ernie4_5,
    ernie4_5_moe,
    exaone,
    exaone4,
    exaone_moe,
    falcon,
    falcon_h1,
    gemma,
    gemma2,
    gemma3,
    gemma3n,
    gemma4,
    gemma4_wrapper,
    glm,
    glm4_moe,
    glm4_moe_lite,
    glm4v,
    gpt2,
    gpt_bigcode,
    gpt_neo,
    gpt_neox,
    gpt_oss,
    gptj,
    granite,
    granitemoe,
    granitemoehybrid,
    grok,
    hunyuan,
    hy_v3,
    idefics3,
    internlm,
    internvl,
    jamba,
    kimi_linear,
    kimi_vl,
    lfm2,
    llama,
    llama4,
    llava,
    longcat_flash,
    mamba,
    mamba2,
    mimo,
    mimo_v2_flash,
    minicpm,
    minicpm3,
    minimax,
    minimax_m2,
    minimax_m3,
    minimax_m3_vl,
    ministral,
    mistral,
    mistral3,
    mixtral,
    mllama,
    mpt,
    nemotron,
    nemotron_h,
    nemotron_nas,
    olmo,
    olmo2,
    olmo_hybrid,
    olmoe,
    opt,
    paligemma,
    persimmon,
    phi,
    phi3,
    phi3small,
    phimoe,
    qwen,
    qwen2,
    qwen2_moe,
    qwen3,
    qwen3_moe,
    qwen3_next,
    qwen3_vl,
    qwen_vl,
    seed_oss,
    smollm3,
    solar_open,
    speech,
    stablelm,
    starcoder2,
    step3,
    step3p5,
    step3p7,
    t5,
    whisper,
    zamba2,
)
from service.domain.configs.base import HIDDEN
from service.domain.configs.fields import Fields, shown
from service.domain.errors import ConfigError, Fault, UnknownArchitecture, nearest


class Family(Protocol):
    """What a family module offers."""

    @property
    def MODEL_TYPES(self) -> tuple[str, ...]:  # noqa: N802  # a module's constant
        """The `model_type` words it answers to."""

    def read(self, fields: Fields) -> Architecture:
        """Read the fields of one config."""


_FAMILIES: tuple[Family, ...] = (
    afmoe,
    apertus,
    arcee,
    arctic,
    baichuan,
    bailing_moe_v2,
    bamba,
    bloom,
    chatglm,
    cohere,
    cohere2,
    dbrx,
    deepseek_v3,
    deepseek_v32,
    deepseek_v4,
    ernie4_5,
    ernie4_5_moe,
    exaone,
    exaone4,
    exaone_moe,
    falcon,
    falcon_h1,
    gemma,
    gemma2,
    gemma3,
    gemma3n,
    gemma4,
    gemma4_wrapper,
    glm,
    glm4_moe,
    glm4_moe_lite,
    glm4v,
    gpt2,
    gpt_bigcode,
    gpt_neo,
    gpt_neox,
    gpt_oss,
    gptj,
    granite,
    granitemoe,
    granitemoehybrid,
    grok,
    hunyuan,
    hy_v3,
    idefics3,
    internlm,
    internvl,
    jamba,
    kimi_linear,
    kimi_vl,
    lfm2,
    llama,
    llama4,
    llava,
    longcat_flash,
    mamba,
    mamba2,
    mimo,
    mimo_v2_flash,
    minicpm,
    minicpm3,
    minimax,
    minimax_m2,
    minimax_m3,
    minimax_m3_vl,
    ministral,
    mistral,
    mistral3,
    mixtral,
    mllama,
    mpt,
    nemotron,
    nemotron_h,
    nemotron_nas,
    olmo,
    olmo2,
    olmo_hybrid,
    olmoe,
    opt,
    paligemma,
    persimmon,
    phi,
    phi3,
    phi3small,
    phimoe,
    qwen,
    qwen2,
    qwen2_moe,
    qwen3,
    qwen3_moe,
    qwen3_next,
    qwen3_vl,
    qwen_vl,
    seed_oss,
    smollm3,
    solar_open,
    speech,
    stablelm,
    starcoder2,
    step3,
    step3p5,
    step3p7,
    t5,
    whisper,
    zamba2,
)
_READERS = {name: family for family in _FAMILIES for name in family.MODEL_TYPES}


def known_model_types() -> tuple[str, ...]:
    """Every `model_type` that a reader answers to, in order."""
    return tuple(sorted(_READERS))


def read_config(config: Mapping[str, Any], *, assume_decoder: bool = False, pointer: str = "/config") -> Architecture:
    """Read a published config.json, whole or cut to what matters.

    With `assume_decoder`, an unknown family with a standard decoder's fields is taken as one, with a warning. Raises
    UnknownArchitecture for a model type that no reader knows, ConfigError for fields that cannot be, NotSupported for
    a quantization scheme that no number format describes.
    """
    fields = Fields(config, pointer)
    model_type = fields.text("model_type")
    if model_type is None:
        raise ConfigError(Fault(f"{pointer}/model_type", "The config has no model_type."))
    family = _READERS.get(model_type)
    if family is not None:
        _refuse_empty(fields)
        return family.read(fields)
    if assume_decoder:
        return _assumed(fields, model_type)
    known = known_model_types()
    detail = f"No reader knows the model_type {shown(model_type)}. Known are: {', '.join(known)}."
    raise UnknownArchitecture(Fault(f"{pointer}/model_type", detail, nearest(model_type, known)))


def _refuse_empty(fields: Fields) -> None:
    """Defaults fill what a file leaves out; a file of nothing but a model type says nothing to fill up."""
    if len(fields.values) == 1:
        raise fields.refuse(HIDDEN[0], f"The config has no {HIDDEN[0]}, nor any other size.")


def _assumed(fields: Fields, model_type: str) -> Architecture:
    warning = f"No reader knows the model_type {shown(model_type)}: taken as a standard decoder, as asked"
    architecture = llama.read_standard(fields)
    return replace(architecture, warnings=(*architecture.warnings, warning))
