"""Speculative decoding: what guessing a few tokens reads and multiplies, and how many of them a step yields.

A step runs the drafter once for each token that it guesses, and the model once over the guesses and one token more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from service.domain.architecture import ModuleKind, Place, Shard
from service.domain.engines.prediction import predicted_layers
from service.domain.errors import Fault, ValidationError
from service.domain.units import whole

if TYPE_CHECKING:
    from service.domain.architecture import Architecture, Module
    from service.domain.engines.speculation import Method, Speculation
    from service.domain.loads import RankLoad
    from service.domain.precision import WeightFormat
    from service.domain.question import Question, Scenario

_SIXTEEN_BITS = 2


class Drafter(NamedTuple):
    """What one pass of a drafter has on a rank: bytes read, bytes of all its experts, elements that a token visits."""

    read_bytes: int
    expert_bytes: int
    parameters: int


_NOTHING = Drafter(0, 0, 0)


class Drafting(NamedTuple):
    """How a question drafts: `guessed` tokens in as many `passes`, `verified` tokens of each sequence a step."""

    name: str
    method: Method
    guessed: int
    verified: int
    passes: int
    whole: Drafter
    rank: Drafter
    known: Speculation

    def weight_bytes(self, drafter: Drafter, touched: float) -> int:
        """What all passes of a step read of a drafter that touches that share of its experts."""
        return self.passes * (drafter.read_bytes + whole(drafter.expert_bytes * touched))

    def cache_bytes(self, load: RankLoad, batch: int, context: int) -> int:
        """What all passes read of the drafter's own cache: one layer of those that keep whole sequences."""
        return self.passes * batch * layer_bytes(load, context)

    @property
    def tokens(self) -> tuple[float, float, float] | None:
        """Tokens that a step yields of each sequence, in hard, most and easy texts; None where nobody can tell."""
        return self.method.accepted.tokens(self.guessed) if self.method.accepted else None


def drafting(question: Question) -> Drafting | None:
    """How a question drafts; None where it does not, or where the catalog says nothing of it."""
    known, name = question.engine.step.speculation, question.echo.asked.get("speculative_method")
    method = None if known is None else known.methods.get(name or "")
    if known is None or method is None:
        return None
    scenario = question.scenario
    tokens = _tokens(question, method, known)
    verified = tokens + known.verified_beside
    passes = 0 if method.layers == "none" else verified - 1
    one, rank = (_drafter(scenario, method, ranks) for ranks in (1, scenario.layout.tensor))
    return Drafting(str(name), method, verified - 1, verified, passes, one, rank, known)


def _tokens(question: Question, method: Method, known: Speculation) -> int:
    """As asked; a checkpoint's own layers guess one token each where nobody says how many."""
    asked = question.echo.asked.get("speculative_tokens")
    own = max(1, predicted_layers(question.scenario.model.architecture)) if method.layers == "own" else 0
    tokens = asked or (own and own + 1 - known.verified_beside)
    if not tokens:
        detail = "How long a step takes depends on how many tokens it guesses: give speculative_tokens."
        raise ValidationError(Fault("/speculative_tokens", detail))
    return int(tokens)


def layer_bytes(load: RankLoad, context: int) -> int:
    """What a step reads of one sequence in one layer that keeps whole sequences, if any does."""
    growing = [term for term in load.terms if term.growing_bytes]
    full = [term for term in growing if term.window_tokens is None] or growing
    return sum(term.read_bytes(context) // max(1, term.readers) for term in full)


def _drafter(scenario: Scenario, method: Method, tensor: int) -> Drafter:
    if method.layers == "none":
        return _NOTHING
    architecture, number = scenario.model.architecture, scenario.weights
    if method.layers == "own":
        layer = _own_layer(architecture, number, tensor) or _average_layer(architecture, number, tensor)
    else:
        layer = _dense_layer(architecture, tensor)
    rows = min(method.head_rows or architecture.vocabulary_size, architecture.vocabulary_size)
    head = rows * architecture.hidden_size // tensor
    return Drafter(layer.read_bytes + _SIXTEEN_BITS * head, layer.expert_bytes, layer.parameters + head)


def _own_layer(architecture: Architecture, number: WeightFormat, tensor: int) -> Drafter | None:
    """One of the checkpoint's prediction layers, its tables left out; None where the config describes none."""
    count, total = predicted_layers(architecture), _NOTHING
    for module in architecture.modules:
        if module.kind is ModuleKind.PREDICTION and module.rows != architecture.vocabulary_size:
            total = _added(total, module, number, tensor)
    return Drafter(*(size // count for size in total)) if count and total.parameters else None


def _added(total: Drafter, module: Module, number: WeightFormat, tensor: int) -> Drafter:
    ranks = 1 if module.shard is Shard.REPLICATED else tensor
    parameters = total.parameters + module.active_count * module.elements // ranks
    if module.active_per_layer == module.per_layer or module.columns == 1:
        size = _SIXTEEN_BITS * module.count * module.elements // ranks
        return total._replace(read_bytes=total.read_bytes + size, parameters=parameters)
    size = module.count * number.matrix_bytes(module.rows, module.columns, ModuleKind.EXPERT) // ranks
    return total._replace(expert_bytes=total.expert_bytes + size, parameters=parameters)


def _average_layer(architecture: Architecture, number: WeightFormat, tensor: int) -> Drafter:
    """As a layer of the model, experts and all, where its config does not describe the prediction layers it has."""
    dense = _dense_layer(architecture, tensor)
    experts = [m for m in architecture.modules if m.kind is ModuleKind.EXPERT]
    if not experts:
        return dense
    layers = architecture.expert_layers
    visited = sum(m.active_count * m.elements for m in experts) // architecture.layers // tensor
    held = sum(m.count * number.matrix_bytes(m.rows, m.columns, m.kind) for m in experts) // layers // tensor
    return Drafter(dense.read_bytes - _SIXTEEN_BITS * visited, held, dense.parameters)


def _dense_layer(architecture: Architecture, tensor: int) -> Drafter:
    """As much as a token visits of an average layer, and the projection that fuses two hidden states, in 16 bits."""
    layers = sum(m.active_count * m.elements for m in architecture.modules if m.place is Place.LAYERS and _drafts(m))
    elements = (layers // architecture.layers + 2 * architecture.hidden_size**2) // tensor
    return Drafter(_SIXTEEN_BITS * elements, 0, elements)


def _drafts(module: Module) -> bool:
    return module.kind not in {ModuleKind.PREDICTION, ModuleKind.VISION, ModuleKind.AUDIO, ModuleKind.ENCODER}
