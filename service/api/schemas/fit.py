"""The answer of `/fit`."""

from marshmallow import fields

from service.api.schemas.answer_parts import (
    AnswerSchema,
    bounds,
    change,
    flag,
    number,
    part,
    rows,
    sentences,
    text,
    whole,
)
from service.api.schemas.quote_parts import (
    AnsweredEngine,
    AnsweredModel,
    Calibration,
    command,
    gpu,
    gpus,
    question,
    taken,
)

_CONSTRAINTS = "weights, reserve, kv_cache, context_limit, sequence_limit, free_memory, dtype or layout."


class CacheKind(AnswerSchema):
    """One kind of cache that the model keeps, over all its layers."""

    kind = text("full, sliding, chunked, latent, indexer, cross or recurrent.")
    layers = whole("Layers that keep it.")
    bytes_per_token = whole("One token held, over all those layers.")
    window_tokens = whole("Tokens held at most; null where it grows without end.", null=True)
    bytes_per_sequence = whole("One sequence of this context.")


class FitRank(AnswerSchema):
    """The rank that fills first."""

    index = whole("Its number in the replica.")
    pipeline_stage = whole("Its stage.")
    kv_bytes_per_token = whole("Its share of one more token.")
    kv_bytes_per_sequence = whole("Its share of one sequence.")


class LedgerPart(AnswerSchema):
    """One part of the limiting rank's memory."""

    name = text("weights, adapters, kv_cache, reserve or reserve.*, outside_budget, others or unused.")
    bytes = whole("Its size.")
    source = text("request, measured, calibrated, modelled, derived, catalog or recalled.")
    note = text("What it is made of.", null=True)


class Ledger(AnswerSchema):
    """Parts that add up to memory_bytes + overcommitted_bytes."""

    memory_bytes = whole("The limiting rank's memory.")
    overcommitted_bytes = whole("What the parts exceed it by.")
    parts = rows(LedgerPart(), "In the order they are taken.")


class Roofline(AnswerSchema):
    """Where decode turns from memory-bound to compute-bound."""

    ridge_batch = whole("The smallest batch that is compute-bound, counting weights only.", least=1)
    shortfall = number("ridge_batch over the ceiling of one replica; null at ceiling 0.", null=True)


class Binding(AnswerSchema):
    """What stops one more sequence."""

    constraint = text(_CONSTRAINTS)
    to_gain_one_sequence_bytes = whole("Missing for one more; null where memory is not what stops it.", null=True)


class Shortage(AnswerSchema):
    """What is missing on the limiting rank where the question does not fit."""

    constraint = text(_CONSTRAINTS)
    needed_bytes = whole("For the batch that was asked.")
    available_bytes = whole("There.")
    missing_bytes = whole("Not there.")
    max_context_tokens = whole("The longest context_limit_tokens that would start.", null=True)
    nearest_change = change("The smallest change that makes it fit.", null=True)


class Lever(AnswerSchema):
    """One change to the question, with the ceiling it would give."""

    move = text("smaller, shared or released.")
    change = change("What to ask instead.")
    max_sequences = whole("The ceiling then.")
    gain = whole("More than now.")


class Interval(AnswerSchema):
    """How far the quote may be off."""

    kv_cache_bytes = bounds(fields.Integer(strict=True), "Low and high.")
    max_concurrency = bounds(fields.Float(), "Low and high.")
    max_sequences = bounds(fields.Integer(strict=True), "Low and high.")
    basis = text("What the bounds rest on.")


class FitAnswer(AnswerSchema):
    """What `/fit` answers. A question that does not fit is a good answer: fits is false and shortage is filled."""

    question = question()
    taken = taken()
    model = part(AnsweredModel(), "The model.")
    gpu = gpu()
    gpus = gpus()
    engine = part(AnsweredEngine(), "The engine.")
    fits = flag("At least batch_size sequences of context_tokens fit, and the engine would start.")
    max_sequences = whole("What memory holds in the whole deployment.")
    max_sequences_per_replica = whole("What memory holds in one replica.")
    max_running_sequences = whole("The smaller of it and the engine's own limit.")
    max_concurrency = number("Sequences of context_limit_tokens per replica, unrounded; may be below 1.")
    max_context_tokens = whole("The longest single sequence; null where longer takes no more memory.", null=True)
    kv_capacity_tokens = whole("What the engine prints as its cache size, per replica.")
    blocks = whole("Cache pages; null where there are none.", null=True)
    block_tokens = whole("Tokens of a page; null where there are none.", null=True)
    groups = whole("Cache groups that share the pool; null where there are none.", null=True)
    kv_bytes_per_token = whole("One more token of one sequence, whole model.")
    kv_bytes_per_sequence = whole("One sequence of this context, whole model.")
    weight_bytes = whole("Whole model.")
    cache = rows(CacheKind(), "The whole model's cache by kind.")
    rank = part(FitRank(), "The rank that fills first.")
    ledger = part(Ledger(), "Its memory, to the byte.")
    roofline = part(Roofline(), "null without bandwidth and peak.", null=True)
    binding = part(Binding(), "What stops one more sequence.")
    shortage = part(Shortage(), "null where the question fits.", null=True)
    levers = rows(Lever(), "Changes that raise the ceiling, the greatest gain first.")
    interval = part(Interval(), "How far the quote may be off.")
    calibration = part(Calibration(), "null where nothing measured was used.", null=True)
    command = command()
    assumptions = sentences("What was taken for granted.")
    warnings = sentences("What may not be as meant.")
    derivation = sentences("The arithmetic, step by step.")
    catalog_revision = whole("The catalog that the answer was computed from.")
    calibration_revision = whole("The calibration that the answer was computed from.")


FIT_ANSWER = FitAnswer()
