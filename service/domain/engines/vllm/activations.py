"""The peak of the profiled pass in closed form: the layers' own, the sampler's, and what outlives either."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from service.domain.architecture import ModuleKind, Shard
from service.domain.engines.vllm.adapters import buffer_bytes
from service.domain.engines.vllm.compressed_memory import added
from service.domain.engines.vllm.media import takes_media
from service.domain.engines.vllm.rules import at_capability, kernel_name
from service.domain.engines.vllm.setting import has_latent, has_states
from service.domain.engines.vllm.shapes import widths_of
from service.domain.units import ceil_div, whole

if TYPE_CHECKING:
    from service.domain.architecture import Module
    from service.domain.engines.vllm.rules import ExpertKernel, Rules, SamplerMethod
    from service.domain.engines.vllm.setting import Batch, Setting
    from service.domain.engines.vllm.shapes import Widths

_WIDE_BYTES, _HALF_BYTES = 4, 2
_LATENT_TOKENS, _LATENT_LENGTHS, _LATENT_BLOCKS = 65536, 8, 4
_NO_WORKSPACE = 0
_UNFILTERED = "unfiltered"


class Peak(NamedTuple):
    """Bytes of the profiled pass: its layers', the sampler's, what is held beside the sampler, what outlives both.

    `compiling` is what a first start holds before that, when it compiles the pass; 0 where it compiles nothing.
    """

    forward: int
    sampler: int
    beside_sampler: int
    kept: int
    compiling: int = 0


def peak_of(setting: Setting, rules: Rules, batch: Batch, *, stage: int, last: bool) -> Peak:
    """The peak of a rank on that pipeline stage; only the last one samples, later ones keep what they are sent."""
    shape, wide = widths_of(setting.model, setting.layout), element_bytes(setting)
    experts = wide * _experts(setting, rules, shape, batch.tokens)
    block = wide * max(batch.tokens * shape.widest, _latent(setting, rules, batch, shape))
    hidden = wide * batch.tokens * shape.hidden
    passing = wide * _passing(setting, rules, shape, batch.tokens)
    layer = max(block, passing) if rules.experts.kept else max(block, experts + passing)
    forward = rules.constants.hidden_multiple * hidden + layer + buffer_bytes(setting, batch.tokens)
    kept = _workspaces(setting, rules) + (experts if rules.experts.kept else 0) + (2 * hidden if stage else 0)
    compiling = 0 if stage else _compiling(setting, rules, batch)
    if setting.model.architecture.compressed:
        beyond = added(setting, rules.compressed, batch, last=last)
        forward, kept = forward + beyond.forward, kept + beyond.kept
    if not last:
        return Peak(forward, 0, 0, kept, compiling)
    beside = hidden + 2 * wide * batch.profiled * shape.hidden
    _, method = sampler_of(setting, rules)
    return Peak(forward, _logits(setting, method, batch.profiled, wide), beside, kept, compiling)


def _compiling(setting: Setting, rules: Rules, batch: Batch) -> int:
    """The table of words that a first start tries kernels with, and what they put out: words embedded, and their norm.

    Models of pictures embed words outside what is compiled.
    """
    asked, architecture = setting.asked, setting.model.architecture
    if rules.core == "v0" or not rules.copies_tables or asked.enforce_eager or takes_media(setting, rules):
        return 0
    table = max((_on_rank(m, setting) for m in architecture.modules if _is_table(m, setting)), default=0)
    return element_bytes(setting) * (table + 2 * batch.tokens * architecture.hidden_size) if table else 0


def _is_table(module: Module, setting: Setting) -> bool:
    """Whether it is a table of all words that is not packed: no kernel is tried with a packed one."""
    words, number = setting.model.architecture.vocabulary_size, setting.weights.of(module)
    size = number.matrix_bytes(module.rows, module.columns, module.kind)
    return module.kind is ModuleKind.EMBEDDING and module.rows == words and size >= _HALF_BYTES * module.elements


def _on_rank(module: Module, setting: Setting) -> int:
    ranks = setting.layout.tensor if module.shard is Shard.ROWS else 1
    return ceil_div(module.rows, ranks) * module.columns


def _workspaces(setting: Setting, rules: Rules) -> int:
    """What the matrix library and what attends keep for themselves."""
    constants, capability = rules.constants, setting.device.capability
    matrices = workspace_bytes(setting, rules)
    if rules.core != "v0" and not has_latent(setting.model.architecture):
        # The newer core attends to nothing in its profiled pass, and a workspace is taken with the first step.
        return matrices
    backend = setting.asked.attention_backend
    if backend is not None:
        return matrices + constants.backends[backend.casefold()].workspace_bytes
    return matrices + at_capability(constants.backend_workspace, capability, _NO_WORKSPACE)


def workspace_bytes(setting: Setting, rules: Rules) -> int:
    """What the matrix library takes for itself on a stream."""
    return at_capability(rules.constants.workspace, setting.device.capability, _NO_WORKSPACE)


def element_bytes(setting: Setting) -> int:
    """Bytes of an activation: 4 where the model computes in 32 bits."""
    return _WIDE_BYTES if setting.weights.name == "fp32" else _HALF_BYTES


def second_runner(setting: Setting, rules: Rules) -> bool:
    """Whether the newer of two model runners takes the model."""
    architecture, rule = setting.model.architecture, rules.runner
    if rule.second in {"none", "all"}:
        return rule.second == "all"
    if architecture.model_type in rule.model_types:
        return True
    return rule.second == "plain" and not architecture.experts[0] and not has_states(architecture)


def sampler_of(setting: Setting, rules: Rules) -> tuple[str, SamplerMethod]:
    """The sampler that the pass runs: the second runner's own, the one asked for, or the release's."""
    if rules.runner.sampling is not None and second_runner(setting, rules):
        return _UNFILTERED, rules.runner.sampling
    name = setting.asked.sampler_backend or rules.sampler.method
    return name, rules.constants.methods[name]


def installed_sampler(setting: Setting, rules: Rules) -> str | None:
    """What samples in place of the release's where its library is installed, which nobody has said."""
    named = setting.asked.sampler_backend or second_runner(setting, rules)
    return None if named else rules.sampler.installed


def _logits(setting: Setting, method: SamplerMethod, sequences: int, wide: int) -> int:
    """Bytes of one sampling step over the whole vocabulary: logits are gathered on every rank."""
    vocabulary, tensor = setting.model.architecture.vocabulary_size, setting.layout.tensor
    element = method.element_bytes if wide == _HALF_BYTES else method.narrow_element_bytes
    if tensor > 1:
        # A rank holds its own share beside what it is sent, and a copy of that in the order of words.
        element = max(element, wide * (2 + 1 / tensor))
    return whole(element * sequences * vocabulary) + _WIDE_BYTES * vocabulary * min(method.buffer_rows, sequences)


def _experts(setting: Setting, rules: Rules, shape: Widths, tokens: int) -> int:
    """Elements of the expert layers' two buffers: a row for each token and expert it visits (accounting 2.8)."""
    constants = rules.constants
    if not shape.experts_active or setting.weights.name in constants.without_buffers:
        return 0
    rows = min(tokens, rules.experts.chunk_tokens) * shape.experts_active
    if setting.weights.name in constants.aligned_formats and (
        (setting.device.capability or 0) >= constants.aligned_capability
    ):
        rows += _local_experts(setting) * (rules.experts.aligned_rows - 1)
    kernel = _kernel(setting, rules)
    second = shape.experts_out if kernel and kernel.narrow else max(shape.experts_out, shape.expert_hidden)
    return rows * (max(shape.experts_in, shape.expert_hidden) + second)


def _passing(setting: Setting, rules: Rules, shape: Widths, tokens: int) -> int:
    """Elements of rows that a kernel orders by expert, and of their products, beside its buffers."""
    kernel = _kernel(setting, rules)
    rows = min(tokens, rules.experts.chunk_tokens) * shape.experts_active
    return kernel.passing * rows * shape.expert_hidden if kernel else 0


def _kernel(setting: Setting, rules: Rules) -> ExpertKernel | None:
    """What was asked to run the experts, where it holds other rows for their format."""
    name = setting.asked.moe_backend
    kernel = rules.constants.expert_kernels[kernel_name(name)] if name else None
    return kernel if kernel and setting.weights.name in kernel.formats else None


def _local_experts(setting: Setting) -> int:
    count, layout = setting.model.architecture.experts[0], setting.layout
    return ceil_div(count, layout.tensor * layout.data) if layout.expert else count


def latent_length(tokens: int) -> int:
    """So much of a longest sequence as the buffer grows with that latent attention gathers in."""
    return min(tokens, ceil_div(_LATENT_TOKENS, _LATENT_LENGTHS))


def _latent(setting: Setting, rules: Rules, batch: Batch, shape: Widths) -> int:
    """Elements of keys and values that latent attention expands for earlier chunks of a prompt."""
    if not shape.latent_heads or rules.core == "v0":
        return 0
    asked = max(_LATENT_LENGTHS * setting.limit_tokens, _LATENT_BLOCKS * batch.sequences * rules.blocks.tokens)
    return min(asked, _LATENT_TOKENS) * shape.latent_heads
