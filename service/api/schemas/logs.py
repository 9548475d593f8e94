"""What `/logs` is asked and what it answers."""

from typing import Any

from marshmallow import fields

from service.api import limits
from service.api.schemas.answer_parts import AnswerSchema, number, part, rows, sentences, text, whole
from service.api.schemas.closed import Asked
from service.api.schemas.fields import AskedField, Properties
from service.api.schemas.fit import FitAnswer
from service.api.schemas.question import FitQuestion
from service.api.schemas.quote_parts import question
from service.domain.errors import Fault
from service.domain.logs import NAMES

_TEXTS = {
    "model": "As printed.",
    "compute_dtype": "As printed.",
    "weight_dtype": "As printed.",
    "kv_dtype": "As printed.",
}
_TEXTS["gpu"] = "As printed."
_TEXTS["sampler_backend"] = "What samples, by the name that a question has for it."
_TEXTS["attention_backend"] = "Whether attention is fused, on or off, by the name that a question has for it."
_NUMBERS = {
    "memory_utilization": "What the engine means by it.",
    "max_concurrency": "Sequences of concurrency_context_tokens, as printed.",
}
_ABOUT = {
    "gpu_count": "Devices that the engine found.",
    "concurrency_context_tokens": "The length that max_concurrency is for.",
    "memory_bytes": "All that the device shows to a process.",
    "free_before_bytes": "Free before the weights were loaded.",
    "free_after_bytes": "Free after that, before the cache.",
    "budget_bytes": "What the engine may use of the device.",
    "weight_bytes": "Loaded on the rank.",
    "activation_bytes": "What the profiled pass took at its peak, or the compute buffer.",
    "other_bytes": "Outside the framework's allocator.",
    "graph_bytes": "Taken by captured graphs.",
    "graph_estimate_bytes": "Set aside for graphs before they were captured.",
    "kv_cache_bytes": "The cache of the rank; the smallest, where ranks differ.",
    "gpu_layers": "Layers on GPUs, the output counted as one.",
    "parallel_slots": "Sequences that have a slot.",
    "draft_cache_bytes": "The cache of a drafter.",
    "state_bytes": "Recurrent states in a pool of their own.",
}


class LogText(AskedField):
    """The log; read in pieces and not by the schema."""

    def read(self, value: object) -> object:
        """Taken out before the rest is read, so that whatever is left here is no text."""
        return value

    def described(self) -> Properties:
        """A long string."""
        return {"type": "string", "maxLength": limits.LOG_BYTES}


class LogQuestion(FitQuestion):
    """A log in JSON, with names of a question for what it does not say."""

    log = LogText(
        metadata={"description": f"The log's text, at most {limits.LOG_BYTES:,} bytes with the rest of the body."}
    )

    def contradictions(self, asked: Asked) -> list[Fault]:
        """There must be a log."""
        return [] if isinstance(asked.get("log"), str) else [Fault("/log", "Give a log: its text as a string.")]


def _said_field(name: str) -> fields.Field[Any]:
    if name in _TEXTS:
        return text(_TEXTS[name], null=True)
    if name in _NUMBERS:
        return number(_NUMBERS[name], null=True)
    return whole(_ABOUT.get(name, "As the question's."), null=True, least=None)


LogSaid = AnswerSchema.from_dict({name: _said_field(name) for name in NAMES}, name="LogSaid")


class LogEngine(AnswerSchema):
    """The engine that wrote the log."""

    name = text("By the question's names.")
    version = text("null where the log does not say it, or may have been cut in it.", null=True)


class LogRank(AnswerSchema):
    """What one rank, or one device, said of itself."""

    worker = text("The engine's own name for the process or the device.")
    rank = whole("Its number in the replica, where its name has one.", null=True)
    replica = whole("The number of the replica, where its name has one.", null=True)
    said = fields.Dict(
        keys=fields.String(), required=True, metadata={"description": "Its own values, by the names of said."}
    )


class LogRefusal(AnswerSchema):
    """Why the engine did not start."""

    kind = text("kv_cache, free_memory or out_of_memory.")
    line = whole("The line that says so.")
    needed_bytes = whole("Needed.", null=True)
    available_bytes = whole("There.", null=True)
    context_limit_tokens = whole("The length it was started for.", null=True)
    max_context_tokens = whole("The longest length that it says would do.", null=True)


class LogStart(AnswerSchema):
    """Which start of the log was read."""

    number = whole("How many starts the log holds.")
    first_line = whole("The start's first line that was understood.", null=True)
    last_line = whole("Its last one.", null=True)
    lines = whole("Lines of the whole log.")


class LogProblem(AnswerSchema):
    """Why there is no quote."""

    code = text("The name of the problem's type.")
    title = text("Its kind in words.")
    detail = text("What was wrong.")
    errors = fields.List(
        fields.Dict(keys=fields.String()),
        required=True,
        metadata={"description": "pointer, detail and nearest of each."},
    )


class LogComparison(AnswerSchema):
    """One part of a rank's memory, said and quoted."""

    part = text(
        "weights, activations, other, graphs, state, kv_cache, or kv_cache_from_free_memory: every cache by the rule."
    )
    worker = text(
        "Whose figure it is: the process or the device that said it; null where its line names none.", null=True
    )
    said_bytes = whole("null where the log does not say it.", null=True)
    quoted_bytes = whole("What the quote has.")
    difference_bytes = whole("Quoted less said.", null=True, least=None)
    relative = fields.Float(
        required=True, allow_none=True, metadata={"description": "The difference to what was said."}
    )


class LogCount(AnswerSchema):
    """One count, said and quoted."""

    name = text("kv_capacity_tokens, max_concurrency, blocks or block_tokens.")
    said = number("In the log.")
    quoted = number("In the quote.")
    difference = fields.Float(required=True, metadata={"description": "Quoted less said."})
    relative = fields.Float(
        required=True, allow_none=True, metadata={"description": "The difference to what was said."}
    )


class LogLeftOut(AnswerSchema):
    """A value that was not taken."""

    what = text("Its names.")
    reason = text("Why.")
    line = whole("The line to blame.", null=True)


class LogAnswer(AnswerSchema):
    """What a log says, and what would have been quoted."""

    engine = part(LogEngine(), "The engine.")
    said = part(LogSaid(), "What it says in our words; null where it does not, or where it cannot be told.")
    said_at = fields.Dict(
        keys=fields.String(),
        required=True,
        metadata={"description": "line, worker and rounding (by how much a printed figure may be off) of each value."},
    )
    per_rank = rows(LogRank(), "What each rank said of itself.")
    refusal = part(LogRefusal(), "Why the engine did not start; null where it does not say that.", null=True)
    settings = fields.Dict(
        keys=fields.String(), required=True, metadata={"description": "The engine's settings as it printed them."}
    )
    start = part(LogStart(), "Which start was read.")
    question = question()
    taken = fields.Dict(
        keys=fields.String(),
        values=fields.String(),
        required=True,
        metadata={"description": "Where each name came from; log where the log says it."},
    )
    quote = part(FitAnswer(), "What /fit answers to the question; null where it cannot.", null=True)
    unquoted = part(LogProblem(), "Why there is no quote; null where there is one.", null=True)
    comparison = rows(LogComparison(), "Bytes that the log and the quote both have.")
    counts = rows(LogCount(), "Counts that the log and the quote both have.")
    left_out = rows(LogLeftOut(), "What was not taken from the log.")
    warnings = sentences("What may not be as meant.")
    catalog_revision = whole("The catalog that the quote was computed from.")


LOG_BODY = LogQuestion()
LOG_ANSWER = LogAnswer()
