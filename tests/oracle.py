"""Compare a published config as we read it with the model code of the `transformers` library, built without weights.

    python -m tests.oracle CONFIG.json [CONFIG.json …]

Prints parameters and the attention cache of one sequence, ours and theirs, and exits 1 where they differ. Where engines
keep a cache otherwise than the model code does, their way counts: a window whole (the model code drops its last token),
shared KV heads once (falcon's code repeats them for each query head), latent vectors as such (the model code expands
them to heads), indexer keys at 132 B, and recurrent state by its own layout. The last four are not compared.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from service.domain.architecture import Architecture
from service.domain.cache.base import CacheKind
from service.domain.configs import read_config
from service.domain.precision import CacheFormat

CONTEXTS = (4096, 32768)
BF16 = CacheFormat("bf16", Fraction(16), 1, Fraction(0))
_COMPARED = (CacheKind.FULL, CacheKind.SLIDING, CacheKind.CHUNKED)
_REPEATS_HEADS = ("falcon",)
_PROMPT_TOKENS = 4
_AUTO_CLASSES = (
    "AutoModelForImageTextToText", "AutoModelForMultimodalLM", "AutoModelForSpeechSeq2Seq", "AutoModelForCausalLM",
    "AutoModelForSeq2SeqLM",
)  # fmt: skip


@dataclass(frozen=True)
class Figures:
    """What is compared: parameters, and the bytes of keys and values in 16 bits by context (None: nothing compared)."""

    parameters: int
    cache_bytes: Mapping[int, int] | None
    note: str = ""


def ours(architecture: Architecture) -> Figures:
    """Our figures: attention caches only; kinds that are kept otherwise are named in the note."""
    compared = [group for group in architecture.caches if group.spec.kind in _COMPARED]
    others = sorted({group.spec.kind for group in architecture.caches} - {*_COMPARED})
    bytes_at = {n: sum(_group_bytes(group, n) for group in compared) for n in CONTEXTS}
    return Figures(architecture.parameters, bytes_at, ", ".join(others))


def _group_bytes(group: Any, context_tokens: int) -> int:
    return int(len(group.layers) * group.spec.sequence_bytes(BF16, context_tokens))


def theirs(config: Mapping[str, Any], *, attention: bool) -> Figures:
    """Build the library's model on the meta device, count it, and, if `attention`, let it cache a short prompt."""
    import torch

    model = _build(config)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    if not attention:
        return Figures(parameters, None)
    _skip_experts(model.modules())
    with torch.no_grad(), torch.device("meta"):
        cache = model(input_ids=torch.ones((1, _PROMPT_TOKENS), dtype=torch.long), use_cache=True).past_key_values
    layers = getattr(cache, "self_attention_cache", cache).layers
    return Figures(parameters, {n: sum(_layer_bytes(layer, n) for layer in layers) for n in CONTEXTS})


def _build(config: Mapping[str, Any]) -> Any:
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    values = {name: value for name, value in config.items() if name not in ("quantization_config", "auto_map")}
    settings = transformers.AutoConfig.for_model(**values)
    for name in _AUTO_CLASSES:
        if type(settings) in getattr(transformers, name)._model_mapping:
            with torch.device("meta"):
                return getattr(transformers, name).from_config(settings).eval()
    raise SystemExit(f"transformers {transformers.__version__} has no language model for {config.get('model_type')!r}")


def _skip_experts(modules: Iterable[Any]) -> None:
    """Experts gather tokens by their values, which the meta device has none of; no cache depends on what they give."""
    for module in modules:
        if type(module).__name__.endswith("Experts"):
            module.forward = lambda hidden_states, *_args, **_kwargs: hidden_states


def _layer_bytes(layer: Any, context_tokens: int) -> int:
    keys, values = getattr(layer, "keys", None), getattr(layer, "values", None)
    if keys is None or values is None:
        return 0
    window = getattr(layer, "sliding_window", None)
    held = context_tokens if window is None else min(context_tokens, window)
    return int(2 * held * (keys.shape[1] * keys.shape[3] + values.shape[1] * values.shape[3]))


def compare(config: Mapping[str, Any]) -> tuple[Figures, Figures]:
    """Our figures and the library's; it builds no cache where ours is of no kind that can be compared."""
    own = ours(read_config(config))
    cached = bool(own.cache_bytes and any(own.cache_bytes.values())) and config["model_type"] not in _REPEATS_HEADS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return own, theirs(config, attention=cached)


def main(arguments: list[str] | None = None) -> int:
    """Compare each file; 1 where any differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("config", type=Path, nargs="+")
    differing = [file for file in parser.parse_args(arguments).config if not _report(file)]
    return 1 if differing else 0


def _report(file: Path) -> bool:
    own, library = compare(json.loads(file.read_text(encoding="utf-8")))
    rows = [("parameters", own.parameters, library.parameters)]
    for tokens, held in (library.cache_bytes or {}).items():
        rows.append((f"cache at {tokens:,} tokens", (own.cache_bytes or {}).get(tokens, 0), held))
    print(file.name)
    for name, left, right in rows:
        print(f"    {name:24} ours {left:>20,}  transformers {right:>20,}  {'' if left == right else 'DIFFERS'}")
    if own.note:
        print(f"    not compared: {own.note}")
    return all(left == right for _, left, right in rows)


if __name__ == "__main__":
    sys.exit(main())
