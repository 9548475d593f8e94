"""Readers from a published `config.json` to the normal form, one module for each family.

A family module has `MODEL_TYPES`, the `model_type` words it answers to, and `read(fields) -> Architecture`. Adding a
family is adding a module here and naming it in `_FAMILIES`, with the same words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from typing import Any, Protocol, cast

from service.domain.architecture import Architecture
from service.domain.configs import llama
from service.domain.configs.base import HIDDEN
from service.domain.configs.fields import Fields, shown
from service.domain.errors import ConfigError, Fault, UnknownArchitecture, nearest


class Family(Protocol):
    """What a family module offers."""

    def read(self, fields: Fields) -> Architecture:
        """Read the fields of one config."""


_FAMILIES: Mapping[str, tuple[str, ...]] = {
    "afmoe": ("afmoe",),
    "apertus": ("apertus", "apertus1p5_text"),
    "apertus1p5": ("apertus1p5",),
    "arcee": ("arcee",),
    "arctic": ("arctic",),
    "axk2": ("axk2",),
    "baichuan": ("baichuan",),
    "bailing_hybrid": ("bailing_hybrid",),
    "bailing_moe_v2": ("bailing_moe_v2",),
    "bamba": ("bamba",),
    "bloom": ("bloom",),
    "chatglm": ("chatglm",),
    "cohere": ("cohere",),
    "cohere2": ("cohere2",),
    "cohere2_moe": ("cohere2_moe",),
    "cohere_vision": ("aya_vision", "cohere2_vision"),
    "cwm": ("cwm",),
    "dbrx": ("dbrx",),
    "deepseek": ("deepseek",),
    "deepseek_v3": ("deepseek_v2", "deepseek_v3", "axk1", "kimi_k2", "mistral4", "sarvam_mla"),
    "deepseek_v32": ("deepseek_v32", "glm_moe_dsa"),
    "deepseek_v4": ("deepseek_v4",),
    "deepseek_v41": ("deepseek_v41",),
    "deepseek_vl_v2": ("deepseek_vl_v2", "unlimited-ocr"),
    "dots1": ("dots1",),
    "dots_ocr": ("dots_ocr",),
    "ernie4_5": ("ernie4_5",),
    "ernie4_5_moe": ("ernie4_5_moe",),
    "ernie4_5_vl": ("ernie4_5_vl_moe", "ernie4_5_moe_vl", "ernie4_5_vl_moe_text"),
    "exaone": ("exaone",),
    "exaone4": ("exaone4",),
    "exaone4_5": ("exaone4_5",),
    "exaone_moe": ("exaone_moe",),
    "falcon": ("falcon", "RefinedWeb", "RefinedWebModel"),
    "falcon_h1": ("falcon_h1",),
    "gemma": ("gemma",),
    "gemma2": ("gemma2",),
    "gemma3": ("gemma3", "gemma3_text"),
    "gemma3n": ("gemma3n", "gemma3n_text"),
    "gemma4": ("gemma4_text", "gemma4_unified_text"),
    "gemma4_wrapper": ("gemma4", "gemma4_unified"),
    "glm": ("glm", "glm4", "glm_ocr_text"),
    "glm4_moe": ("glm4_moe", "sarvam_moe"),
    "glm4_moe_lite": ("glm4_moe_lite",),
    "glm4v": ("glm4v", "glm4v_moe", "glm46v"),
    "glm5_next": ("glm5_next", "glm5_next_text"),
    "glm_ocr": ("glm_ocr",),
    "got_ocr2": ("got_ocr2", "GOT"),
    "gpt2": ("gpt2",),
    "gpt_bigcode": ("gpt_bigcode",),
    "gpt_neo": ("gpt_neo",),
    "gpt_neox": ("gpt_neox",),
    "gpt_oss": ("gpt_oss",),
    "gptj": ("gptj", "codegen"),
    "granite": ("granite", "hyperclovax"),
    "granite4_vision": ("granite4_vision",),
    "granitemoe": ("granitemoe", "granitemoeshared"),
    "granitemoehybrid": ("granitemoehybrid",),
    "grok": ("grok-1",),
    "helium": ("helium",),
    "hunyuan": ("hunyuan", "hunyuan_v1_dense", "hunyuan_v1_moe"),
    "hunyuan_vl": ("hunyuan_vl",),
    "hy_v3": ("hy_v3",),
    "idefics2": ("idefics2",),
    "idefics3": ("idefics3", "smolvlm"),
    "iquestcoder": ("iquestcoder",),
    "internlm": ("internlm", "internlm2", "internlm3"),
    "inkling": ("inkling_mm_model", "inkling_text", "inkling_model"),
    "internvl": ("internvl", "internvl_chat", "qianfan_ocr"),
    "jais2": ("jais2",),
    "jamba": ("jamba",),
    "kimi_linear": ("kimi_linear",),
    "kimi_vl": ("kimi_vl", "kimi_k25", "kimi_k3"),
    "laguna": ("laguna",),
    "lfm2": ("lfm2", "lfm2_moe"),
    "lfm2_vl": ("lfm2_vl",),
    "llama": ("llama", "yi", "Yi"),
    "llama4": ("llama4", "llama4_text"),
    "llava": ("llava", "llava_next", "llava_next_video", "llava_onevision"),
    "longcat_flash": ("longcat_flash",),
    "mamba": ("mamba", "falcon_mamba"),
    "mamba2": ("mamba2",),
    "mimo": ("mimo",),
    "minicpmv": ("minicpmv", "minicpmv4_6"),
    "mimo_v2_flash": ("mimo_v2_flash", "mimo_v2"),
    "minicpm": ("minicpm",),
    "minicpm3": ("minicpm3",),
    "minimax": ("minimax", "minimax_text_01", "minimax_m1"),
    "minimax_m2": ("minimax_m2",),
    "minimax_m3": ("minimax_m3", "minimax_m3_vl_text"),
    "minimax_m3_vl": ("minimax_m3_vl",),
    "ministral": ("ministral", "ministral3"),
    "mistral": ("mistral",),
    "mistral3": ("mistral3",),
    "mixtral": ("mixtral",),
    "mllama": ("mllama",),
    "molmo2": ("molmo2", "molmo2_text"),
    "mpt": ("mpt",),
    "muse_glimmer": ("muse_glimmer", "muse_glimmer_text"),
    "nemotron": ("nemotron",),
    "nemotron_h": ("nemotron_h",),
    "nemotron_nas": ("nemotron-nas",),
    "olmo": ("olmo",),
    "olmo2": ("olmo2", "olmo3"),
    "olmo_hybrid": ("olmo_hybrid",),
    "olmoe": ("olmoe",),
    "opt": ("opt",),
    "paddleocr_vl": ("paddleocr_vl",),
    "paligemma": ("paligemma",),
    "persimmon": ("persimmon",),
    "phi": ("phi",),
    "phi3": ("phi3", "phi4"),
    "phi3_v": ("phi3_v",),
    "phi3small": ("phi3small",),
    "phi4_multimodal": ("phi4mm", "phi4_multimodal"),
    "phimoe": ("phimoe",),
    "qwen": ("qwen",),
    "qwen2": ("qwen2", "qwen2_5"),
    "qwen2_moe": ("qwen2_moe",),
    "qwen3": ("qwen3",),
    "qwen3_asr": ("qwen3_asr",),
    "qwen3_moe": ("qwen3_moe",),
    "qwen3_next": ("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"),
    "qwen3_omni": ("qwen3_omni_moe", "qwen3_omni_moe_thinker"),
    "qwen3_vl": ("qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe", "qwen4_exp"),
    "qwen4_exp": ("qwen4_exp_text",),
    "qwen_vl": ("qwen2_vl", "qwen2_5_vl", "qwen2_5_omni", "qwen2_5_omni_thinker"),
    "seed_oss": ("seed_oss",),
    "smollm3": ("smollm3",),
    "solar_open": ("solar_open",),
    "speech": ("voxtral", "qwen2_audio"),
    "stablelm": ("stablelm",),
    "starcoder2": ("starcoder2",),
    "step3": ("step3_text",),
    "step3_vl": ("step3_vl",),
    "step3p5": ("step3p5",),
    "step3p7": ("step3p7",),
    "t5": ("t5", "mt5"),
    "whisper": ("whisper",),
    "zamba2": ("zamba2",),
}
"""Each family module with its `MODEL_TYPES`. It is imported when a config of its family is first read: most processes
meet few of them, and all together take as long to import as Flask."""
_MODULES = {model_type: module for module, types in _FAMILIES.items() for model_type in types}


def known_model_types() -> tuple[str, ...]:
    """Every `model_type` that a reader answers to, in order."""
    return tuple(sorted(_MODULES))


def import_readers() -> None:
    """Import every family now: for a process that others are forked from, which then share the code."""
    for module in _FAMILIES:
        _family(module)


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
    module = _MODULES.get(model_type)
    if module is not None:
        _refuse_empty(fields)
        return _family(module).read(fields)
    if assume_decoder:
        return _assumed(fields, model_type)
    known = known_model_types()
    detail = (
        f"No reader knows the model_type {shown(model_type)}. With assume=decoder a config with a standard decoder's"
        f" fields is taken as one. Known are: {', '.join(known)}."
    )
    raise UnknownArchitecture(Fault(f"{pointer}/model_type", detail, nearest(model_type, known)))


def _family(module: str) -> Family:
    return cast("Family", import_module(f"{__name__}.{module}"))


def _refuse_empty(fields: Fields) -> None:
    """Defaults fill what a file leaves out; a file of nothing but a model type says nothing to fill up."""
    if len(fields.values) == 1:
        raise fields.refuse(HIDDEN[0], f"The config has no {HIDDEN[0]}, nor any other size.")


def _assumed(fields: Fields, model_type: str) -> Architecture:
    warning = f"No reader knows the model_type {shown(model_type)}: taken as a standard decoder, as asked"
    architecture = llama.read_standard(fields)
    return replace(architecture, warnings=(*architecture.warnings, warning))
