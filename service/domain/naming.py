"""What people add to a model's name when they deploy it: number formats, tuning words, revisions, separators.

Only whole endings of the table are taken off, one number format at most. Whatever else a name says (a distill, a
merge, a pruned or a draft model) is another model, and nothing here shortens it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.domain.model import Model


class NamedModel(NamedTuple):
    """A model with what its name says beside it; None where the name says nothing, `note` where it was interpreted."""

    model: Model
    weight_dtype: str | None = None
    kv_dtype: str | None = None
    note: str | None = None


class Ending(NamedTuple):
    """What an ending says of the checkpoint: formats of weights and cache, and what is taken for granted.

    `refusal` is filled where the ending names a format that cannot be told from the name alone.
    """

    text: str
    weight_dtype: str | None = None
    kv_dtype: str | None = None
    remark: str | None = None
    refusal: str | None = None

    @property
    def derived(self) -> bool:
        """Whether a checkpoint of that ending is made from another one, and not the original in 16 bits."""
        return self.weight_dtype not in {"bf16", "fp16", "fp32"}


_GGUF_TYPES = (
    *("q2_k", "q3_k_s", "q3_k_m", "q3_k_l", "q4_0", "q4_1", "q4_k_s", "q4_k_m", "q5_0", "q5_1", "q5_k_s", "q5_k_m"),
    *("q6_k", "q8_0", "iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s", "iq4_nl", "iq4_xs"),
    *("tq1_0", "tq2_0"),
)
_WEIGHTS: Final = {
    "awq": ("awq", "awq-int4", "int4-awq", "awq-4bit", "awq-marlin", "awq-g128", "w4a16-awq", "awq-w4a16"),
    "gptq": ("gptq", "gptq-int4", "int4-gptq", "gptq-4bit", "gptq-4bit-128g", "gptq-int4-g128", "gptq-marlin",
             "gptq-w4a16", "int4-autoround"),
    **{f"{kind}_g{size}": (f"{kind}-g{size}", f"{kind}-int4-g{size}", f"{kind}-4bit-{size}g")
       for kind in ("awq", "gptq") for size in (32, 64)},
    "gptq_int8": ("gptq-int8", "gptq-8bit", "int8-gptq", "gptq-8bit-128g", "gptq-int8-g128"),
    "w4a16": ("w4a16", "quantized-w4a16", "w4a16-g128", "qat-w4a16"),
    "w8a16": ("w8a16", "quantized-w8a16"),
    "w8a8": ("w8a8", "quantized-w8a8", "w8a8-int8", "int8-w8a8"),
    "fp8": ("fp8", "fp8-dynamic", "fp8-e4m3", "fp8-ptpc", "w8a8-fp8"),
    "fp8_block128": ("fp8-block",),
    "fp8_tensor": ("fp8-static",),
    "nf4": ("bnb-4bit", "bnb-nf4", "nf4", "bnb-4bits"),
    "bnb_int8": ("bnb-8bit", "bnb-int8"),
    "nvfp4": ("nvfp4", "fp4", "nvfp4a16"),
    "mxfp4": ("mxfp4",),
    "bf16": ("bf16", "bfloat16"),
    "fp16": ("fp16", "float16"),
}  # fmt: skip
_REFUSED: Final = {
    "8 bits without the scheme": ("int8", "8bit", "int8-autoround"),
    "4 bits without the scheme": ("4bit",),
    "8-bit weights with 16-bit activations": ("fp8-w8a16",),
}


def _table() -> Iterator[Ending]:
    for dtype, texts in _WEIGHTS.items():
        yield from (Ending(text, dtype) for text in texts)
    for kind in _GGUF_TYPES:
        text = kind.replace("_", "-")
        yield from (Ending(t, kind) for t in (text, f"{text}-gguf", f"gguf-{text}", f"qat-{text}", f"qat-{text}-gguf"))
    for what, texts in _REFUSED.items():
        yield from (Ending(text, refusal=f"it says {what}") for text in texts)
    yield Ending("fp8-kv", "fp8", "fp8")
    yield Ending("int4", "gptq", remark="a 4-bit integer checkpoint is taken as GPTQ in groups of 128")
    yield Ending("unsloth-bnb-4bit", "nf4", remark="the layers that unsloth keeps in 16 bits are not in the name")
    yield from (
        Ending(text, remark="a GGUF repository holds files of several types, of which weight_dtype is one")
        for text in ("gguf", "i1-gguf", "imatrix-gguf")
    )
    yield Ending("qat-q4-0-unquantized", remark="trained for 4 bits and stored in the base's own type")


_ENDINGS: Final = {ending.text: ending for ending in _table()}
_LONGEST_ENDING: Final = max(text.count("-") + 1 for text in _ENDINGS)

_TUNING: Final = frozenset({"instruct", "chat", "it", "base", "pt"})
UNTUNED: Final = frozenset({"base", "pt"})
"""Words of a model before instruction tuning; its name without a word means the same."""

_VENDORS: Final = ("meta-", "nvidia-", "c4ai-", "ai21-")
"""What vendors put before the name of some of their models, and people leave out or add."""

_SEPARATORS = re.compile(r"[\s_]+|(?<!\d)\.|\.(?!\d)|-{2,}")
_DECIMAL_UNDERSCORE = re.compile(r"(?<=\d)_(?=\d)")
_VERSION_DOT = re.compile(r"(?<=\d)\.(?=\d+(?![\d.]*[bm]\b))")
_UPLOAD = re.compile(r"^(.+)-v\d\d?$")
_REVISION = re.compile(r"-(?:\d\d-\d{4}|\d{4}|v\d+\.\d+|v\d\d)$")


def spelt(folded: str) -> str:
    """A name with every separator as a hyphen but the dot of a decimal."""
    return re.sub("-{2,}", "-", _SEPARATORS.sub("-", folded)).strip("-")


def asked_forms(part: str) -> tuple[str, ...]:
    """How a name without owner may stand in a catalog: as it is, without `-hf`, without its vendor's prefix."""
    form = spelt(part)
    plain = form.removesuffix("-hf")
    return tuple(dict.fromkeys((form, plain, _without_vendor(plain))))


def catalog_forms(folded: str) -> frozenset[str]:
    """How people may spell a name of the catalog, with the owner joined on or left out.

    Versions lose their dot (3.1 as 3-1) and sizes keep it, since 2-7b is another model than 2.7b.
    """
    parts = {folded.replace("/", "-"), folded.rpartition("/")[2]}
    decimal = {_DECIMAL_UNDERSCORE.sub(".", part) for part in parts}
    forms = {spelt(part).removesuffix("-hf") for part in parts | decimal}
    forms |= {form.removesuffix("-bf16") for form in forms}
    forms |= {_without_vendor(form) for form in forms}
    return frozenset(forms | {_VERSION_DOT.sub("-", form) for form in forms})


def _without_vendor(form: str) -> str:
    return next((form.removeprefix(vendor) for vendor in _VENDORS if form.startswith(vendor)), form)


def ending_of(form: str) -> tuple[str, Ending] | None:
    """The name before its number format, and that format; None where it ends in none. The longest ending counts.

    A version behind the format (`nvfp4-v2`) is that of the quantized files, not of the model; behind a format that is
    stored as the original is, it may be a model's own.
    """
    upload = _UPLOAD.match(form)
    if upload is None:
        return _plainly_ended(form)
    found = _plainly_ended(upload[1])
    return (found[0], _of_upload(found[1])) if found and (found[1].derived or found[1].refusal) else None


def _of_upload(ending: Ending) -> Ending:
    remarks = (ending.remark, "what this version of the quantized files stores otherwise is not in the name")
    return ending._replace(remark="; ".join(filter(None, remarks)))


def _plainly_ended(form: str) -> tuple[str, Ending] | None:
    words = form.split("-")
    for count in range(min(_LONGEST_ENDING, len(words) - 1), 0, -1):
        ending = _ENDINGS.get("-".join(words[-count:]))
        if ending is not None:
            return "-".join(words[:-count]), ending
    return None


def untuned(form: str) -> tuple[tuple[str, str], ...]:
    """The name without its tuning word, and that word; nothing where it has none or more than one."""
    words = form.split("-")
    found = [place for place, word in enumerate(words) if word in _TUNING and place]
    if len(found) != 1:
        return ()
    place = found[0]
    return (("-".join(words[:place] + words[place + 1 :]), words[place]),)


def undated(form: str) -> str | None:
    """The name without the revision at its end (-2407, -08-2024, -v0.1); None where it has none."""
    stem = _REVISION.sub("", form)
    return stem if stem != form else None
