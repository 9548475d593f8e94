"""Slots of adapters (LoRA): what the engine allocates for them while it loads the model, to the byte.

Each matrix W of [rows, columns] has two factors in each slot, A of [rank, columns] and B of [rows, rank], in the type
that the model computes in. Tensor parallelism divides the one that stands on the divided side of W: B of matrices that
put out a part, A of those that take one in; the other is whole on every rank (vllm/lora/layers).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from service.domain.architecture import ModuleKind, Place, Shard
from service.domain.engines.plain import SIXTEEN_BIT_TYPES
from service.domain.engines.vllm.adapter_rules import DEFAULT_RANK
from service.domain.engines.vllm.rules import kernel_name
from service.domain.engines.vllm.shapes import FUSED
from service.domain.errors import Fault, NotSupported, ValidationError
from service.domain.memo import remembered
from service.domain.units import ceil_div, up
from service.domain.weights import stage_shapes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.domain.engines.vllm.adapter_rules import AdaptedFamily, AdapterRules, SlotLayout
    from service.domain.engines.vllm.rules import Rules
    from service.domain.engines.vllm.setting import Asked, Batch, Setting
    from service.domain.weights import Part, StageShapes

_ELEMENT_BYTES, _INDEX_BYTES, _BUFFER_BYTES = 2, 8, 4
_OLDER_CORE = "the newer core's are, which runs everything from engine_version 0.10.0 on"
_SWITCH_BYTES, _TABLE_MULTIPLE = 4, 64
_ADAPTED = frozenset({ModuleKind.ATTENTION, ModuleKind.MLP})
_ROUTED = frozenset({ModuleKind.ROUTER, ModuleKind.EXPERT})
_EXPERTS_RUN_BY = frozenset({None, "auto", "triton"})
_GATED = frozenset({ModuleKind.MLP, ModuleKind.EXPERT})
_ALONE = frozenset({"o_proj", "down_proj"})
_GGUF = re.compile(r"i?q\d", re.ASCII)
_LEADING = frozenset({"q_proj", "gate_proj"})


def slot_bytes(setting: Setting, rules: Rules, batch: Batch) -> tuple[int, ...]:
    """Bytes of all slots and their indices on the fullest rank of each pipeline stage; 0 where none were asked for."""
    layout, slots = setting.layout, _slots(setting)
    if not slots:
        return (0,) * layout.pipeline
    family, known = _known(setting, rules)
    key = ("vllm-slots", rules, layout, slots, rank_of(setting), setting.asked.fully_sharded_loras)
    found: tuple[int, ...] = remembered(setting.model, key, lambda: _stages(setting, family, known))
    indices = batch.tokens * known.token_bytes + batch.sequences * known.sequence_bytes
    return tuple(size + indices for size in found)


def _slots(setting: Setting) -> int:
    """Adapters of a batch, each with a slot; 0 where adapters are not enabled."""
    return setting.asked.max_loras or 0


def rank_of(setting: Setting) -> int:
    """The greatest rank of an adapter."""
    asked = setting.asked.max_lora_rank
    return DEFAULT_RANK if asked is None else asked


def buffer_bytes(setting: Setting, tokens: int) -> int:
    """What a layer holds of a pass beside its activations: products with A, of gate and up or of one alone.

    They are in 32 bits, and in 16 for each expert that a token visits.
    """
    if not setting.asked.max_loras:
        return 0
    architecture, rows = setting.model.architecture, tokens * rank_of(setting)
    names = {m.name.removeprefix("experts.") for m in architecture.modules if m.kind in _GATED}
    width = max(_BUFFER_BYTES, architecture.experts[1] * _ELEMENT_BYTES)
    return width * rows * (2 if "gate_proj" in names else 1)


def graph_kinds(setting: Setting, rules: Rules) -> int:
    """How often each graph is captured: with adapters and without them, in releases that tell the two apart."""
    layout = rules.adapters.layout
    return layout.graph_kinds if setting.asked.max_loras and layout else 1


def slots_note(setting: Setting) -> str:
    """What the slots are for."""
    count = _slots(setting)
    return (
        f"slots for {count:,} adapter{'s' * (count > 1)} of rank {rank_of(setting)}, allocated as the model is loaded"
    )


def check_adapters(setting: Setting, release: str, rules: Rules) -> None:
    """Refuse what the engine refuses (ValidationError) and what is not described (NotSupported); raises QuoteError."""
    if setting.asked.max_loras is None:
        _check_alone(setting.asked)
        return
    if not setting.asked.max_loras:
        detail = "vLLM keeps at least one slot for adapters: leave max_loras out where there are none."
        raise ValidationError(Fault("/max_loras", detail))
    family, layout = _known(setting, rules)
    _check_rank(setting, release, layout)
    _check_weights(setting)
    if family.experts:
        _check_experts(setting)
    _check_words(setting, release, family, layout)


def _check_alone(asked: Asked) -> None:
    said = {"max_lora_rank": asked.max_lora_rank is not None, "fully_sharded_loras": asked.fully_sharded_loras}
    faults = [Fault(f"/{name}", f"{name} is of adapters: give max_loras too.") for name, given in said.items() if given]
    if faults:
        raise ValidationError(*faults)


def _check_words(setting: Setting, release: str, family: AdaptedFamily, layout: SlotLayout) -> None:
    words = setting.model.architecture.vocabulary_size + family.longer * layout.added_words
    if family.outputs and words > layout.most_words:
        detail = f"vLLM {release} takes adapters for at most {layout.most_words:,} words, not for {words:,}."
        raise ValidationError(Fault("/max_loras", detail))


def _check_rank(setting: Setting, release: str, layout: SlotLayout) -> None:
    rank, tensor = rank_of(setting), setting.layout.tensor
    if rank not in layout.ranks:
        ranks, larger = ", ".join(map(str, layout.ranks)), [each for each in layout.ranks if each > rank][:1]
        way_out = ": give the next larger one" if larger else ""
        detail = f"vLLM {release} takes no adapters of rank {rank}, only {ranks}{way_out}."
        raise ValidationError(Fault("/max_lora_rank", detail, tuple(map(str, larger))))
    if setting.asked.fully_sharded_loras and rank % tensor:
        detail = f"Rank {rank} cannot be divided over tensor_parallel {tensor}, as fully_sharded_loras asks."
        raise ValidationError(Fault("/fully_sharded_loras", detail))


def _check_weights(setting: Setting) -> None:
    name = setting.weights.name
    if _GGUF.match(name):
        raise NotSupported(
            Fault("/max_loras", "Slots of adapters beside the weights of a GGUF file are not described.")
        )
    if name == "fp32":
        raise ValidationError(Fault("/max_loras", "Adapters are computed in 16 bits; this model computes in 32."))


def _check_experts(setting: Setting) -> None:
    """Experts are described as the common kernel runs them, sliced and in 16 bits."""
    named = setting.asked.moe_backend and kernel_name(setting.asked.moe_backend)
    faults = []
    if setting.layout.expert:
        faults.append(Fault("/expert_parallel", "Slots of adapters for experts that are spread are not described yet."))
    if setting.layout.data > 1:
        detail = "Slots of adapters for experts of several replicas are not described yet."
        faults.append(Fault("/data_parallel", detail))
    if setting.weights.name not in SIXTEEN_BIT_TYPES:
        detail = f"Slots of adapters for experts in {setting.weights.name} are not described yet."
        faults.append(Fault("/max_loras", detail))
    if named not in _EXPERTS_RUN_BY:
        faults.append(Fault("/moe_backend", f"Adapters of experts that {named} runs are not described, only triton's."))
    if faults:
        raise NotSupported(*faults)


def _known(setting: Setting, rules: Rules) -> tuple[AdaptedFamily, SlotLayout]:
    """The family's and the release's rules; raises NotSupported where one was not read."""
    family, layout = _described(setting, rules.adapters, rules.core)
    key = ("vllm-slots-of-none", family.experts)
    strange: list[str] = remembered(setting.model, key, lambda: _strange(setting, family))
    if strange:
        detail = f"Slots of adapters for {', '.join(strange)} of {setting.model.name} are not described yet."
        raise NotSupported(Fault("/max_loras", detail))
    return family, layout


def _described(setting: Setting, found: AdapterRules, core: str) -> tuple[AdaptedFamily, SlotLayout]:
    name = setting.model.architecture.model_type
    family, known = found.families.get(name), found.since.get(name)
    if known and (found.layout is None or core == "v0"):
        first = f"{known} is the first release whose are" if found.layout is None else _OLDER_CORE
        raise NotSupported(Fault("/max_loras", f"Slots of adapters are not described here: {first}."))
    if family is None or found.layout is None:
        detail = f"Which slots vLLM keeps for adapters of {setting.model.name} ({name}) is not described"
        detail += f" for this release; for {known} it is." if known else " yet."
        raise NotSupported(Fault("/max_loras", detail))
    if family.refused:
        raise ValidationError(Fault("/max_loras", f"vLLM does not support adapters of {setting.model.name} ({name})."))
    return family, found.layout


def _strange(setting: Setting, family: AdaptedFamily) -> list[str]:
    """Matrices of the layers of which nobody said whether they have slots."""
    modules = (m for m in setting.model.architecture.modules if m.place is Place.LAYERS and m.columns > 1)
    held = (m for m in modules if m.kind is not ModuleKind.PREDICTION and not (family.experts and m.kind in _ROUTED))
    return sorted({m.name for m in held if m.kind not in _ADAPTED or m.name not in {*FUSED, *_ALONE}})


def _stages(setting: Setting, family: AdaptedFamily, layout: SlotLayout) -> tuple[int, ...]:
    """Every stage's slots without what a batch decides."""
    stages = stage_shapes(setting.model.architecture, setting.layout)
    last = len(stages) - 1
    slots = _slots(setting)
    switches = _SWITCH_BYTES * (slots + 1)
    return tuple(
        slots * _ELEMENT_BYTES * sum(_elements(setting, family, shapes))
        + switches * max((len(part.layers) for part in shapes.experts), default=0)
        + _tables(setting, family, layout, first=stage == 0, last=stage == last)
        for stage, shapes in enumerate(stages)
    )


def _elements(setting: Setting, family: AdaptedFamily, shapes: StageShapes) -> Iterator[int]:
    """Elements of one slot in the layers of a stage, matrix by matrix."""
    rank = rank_of(setting)
    share = setting.layout.tensor if setting.asked.fully_sharded_loras else 1
    kinds = _ADAPTED | (_ROUTED if family.experts else frozenset())
    for part in (*shapes.read, *shapes.experts):
        if part.module.kind in kinds and part.module.columns > 1:
            yield part.per_layer * len(part.layers) * _factors(part, family, rank, share)


def _factors(part: Part, family: AdaptedFamily, rank: int, share: int) -> int:
    """Elements of A and B of one matrix; fully sharded, the factor that is whole elsewhere is divided by the ranks."""
    name, shard = part.module.name, part.module.shard
    if shard is Shard.COLUMNS:
        return rank * part.columns + ceil_div(part.rows, share) * rank
    if shard is Shard.REPLICATED:
        return rank * (part.columns + part.rows)
    shared = FUSED.get(name) in family.joined and name not in _LEADING
    return (0 if shared else rank // share * part.columns) + part.rows * rank


def _tables(setting: Setting, family: AdaptedFamily, layout: SlotLayout, *, first: bool, last: bool) -> int:
    """Slots of the embedding and of the output matrix, whole on every rank, and the rows that those grow by."""
    architecture = setting.model.architecture
    size, tied = 0, architecture.tied
    stands = first or (last and tied)
    if family.inputs and stands:
        size += _input_bytes(setting, layout) * (2 if family.again and tied and last else 1)
    if family.longer and stands:
        size += _added(setting, layout) // setting.layout.tensor
    if family.outputs and last:
        size += _output_bytes(setting, family, layout)
    return size


def _added(setting: Setting, layout: SlotLayout) -> int:
    """Bytes of rows for added words of every slot."""
    return _slots(setting) * layout.added_words * setting.model.architecture.hidden_size * _ELEMENT_BYTES


def _input_bytes(setting: Setting, layout: SlotLayout) -> int:
    architecture = setting.model.architecture
    rows = architecture.vocabulary_size + layout.added_words + architecture.hidden_size
    return _slots(setting) * rank_of(setting) * rows * _ELEMENT_BYTES + _added(setting, layout)


def _output_bytes(setting: Setting, family: AdaptedFamily, layout: SlotLayout) -> int:
    """Factors for logits of the whole vocabulary, the order of words over ranks, and a longer output matrix."""
    architecture, tensor = setting.model.architecture, setting.layout.tensor
    hidden, words = architecture.hidden_size, architecture.vocabulary_size
    rows = up(words + family.longer * layout.added_words, layout.head_multiple)
    size = _slots(setting) * rank_of(setting) * (hidden + rows) * _ELEMENT_BYTES + _added(setting, layout)
    plain = up(words, _TABLE_MULTIPLE)
    held = up(words, layout.head_multiple) + layout.added_words if family.longer else plain
    if tensor > 1:
        size += _INDEX_BYTES * held
    if not architecture.tied:
        size += (held - plain) * hidden * _ELEMENT_BYTES // tensor
    return size
