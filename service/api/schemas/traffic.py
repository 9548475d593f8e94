"""The answer of `/traffic`."""

from marshmallow import fields

from service.api.schemas.answer_parts import AnswerSchema, bounds, flag, number, part, rows, sentences, text, whole
from service.api.schemas.quote_parts import AnsweredEngine, AnsweredModel, command, gpu, gpus, question, taken

_BOUND = "memory, compute or communication."
_UNTOLD = "null without bandwidth and peak, and where drafts yield what the text alone decides."
_STEP_BOUND = "memory, compute, communication or overhead."


class KindTraffic(AnswerSchema):
    """What one kind of cache contributes."""

    kind = text("full, sliding, chunked, latent, indexer, cross or recurrent.")
    bytes = whole("Read by one step, whole model.")


class StepShares(AnswerSchema):
    """What each term is of a step; together 1."""

    weights = number("Reading weights, where that is longer than multiplying.")
    compute = number("Multiplying, where that is longer than reading weights.")
    cache = number("Reading the cache and writing what the step adds.")
    communication = number("Between ranks.")
    overhead = number("Launching, sampling, scheduling.")


class Step(AnswerSchema):
    """One decode step, between two tokens of one sequence, summed over pipeline stages; drafts included."""

    seconds = number("All of it.")
    memory_seconds = number("Reading weights and cache.")
    compute_seconds = number("Multiplying.")
    communication_seconds = number("Between ranks.")
    overhead_seconds = number("Launching, sampling, scheduling.")
    bound = text(_STEP_BOUND)
    shares = part(StepShares(), "Of the seconds.")
    interval_seconds = bounds(fields.Float(), "Low and high.")


class Prefill(AnswerSchema):
    """prefill_sequences prompts run together; time in the model, no queue and no HTTP."""

    tokens = whole("Tokens of all prompts.")
    flops = whole("Operations.")
    seconds = number("null without bandwidth and peak.", null=True)
    interval_seconds = bounds(fields.Float(), "Low and high.", null=True)
    bound = text(_BOUND, null=True)
    chunk_tokens = whole("Tokens of prompts that one step takes.", least=1)
    mixed_step_seconds = number("A decode step with such a chunk; null without bandwidth and peak.", null=True)
    scores_per_head = whole("prompt_tokens squared.")
    scores_bytes_if_materialised = whole("Attention scores, if they were written out.")
    scores_bytes_streaming = whole("Running maxima and sums, as they are kept instead.")


class TrafficRank(AnswerSchema):
    """The limiting rank's own traffic."""

    index = whole("Its number in the replica.")
    pipeline_stage = whole("Its stage.")
    weight_traffic_bytes = whole("Weights read by one step.")
    cache_traffic_bytes = whole("Cache read by one step.")
    total_traffic_bytes = whole("Both.")


class CurveRow(AnswerSchema):
    """One batch size with one context."""

    batch_size = whole("Sequences per replica.", least=1)
    context_tokens = whole("Each sequence's.", least=1)
    fits = flag("As many sequences of that context fit.")
    weight_traffic_bytes = whole("Weights read by one step.")
    cache_traffic_bytes = whole("Cache read by one step.")
    total_traffic_bytes = whole("Both.")
    weight_share = number("Of the total.")
    cache_share = number("Of the total.")
    step_seconds = number("null without bandwidth and peak.", null=True)
    bound = text(_STEP_BOUND, null=True)
    tokens_per_second = number("The deployment's; null without bandwidth and peak.", null=True)


class Efficiency(AnswerSchema):
    """Achieved fractions of what the GPU's maker states."""

    bandwidth = number("Of bandwidth.")
    compute = number("Of peak.")
    source = text("modelled or measured.")
    measurements = whole("How many stood behind it.")


class Speculation(AnswerSchema):
    """What speculative decoding adds to a step, and what it yields."""

    method = text("As asked.")
    draft_passes = whole("Passes of the drafter in one step; 0 where it has no layers.")
    verified_tokens = whole("Tokens of each sequence that the model takes in one step.", least=1)
    weight_traffic_bytes = whole("Of the drafter's weights read by one step, whole model; in the totals too.")
    cache_traffic_bytes = whole("Of the drafter's cache read by one step, whole model; in the totals too.")
    draft_seconds = number("What of the step the passes take; null without bandwidth and peak.", null=True)
    tokens_per_step = number("Expected of each sequence; null where it depends on the text alone.", null=True)
    tokens_per_step_interval = bounds(fields.Float(), "In texts that are hard and easy to guess.")
    time_per_output_token_interval_seconds = bounds(
        fields.Float(), "Low and high; null without bandwidth and peak.", null=True
    )


class Exchange(AnswerSchema):
    """Messages of one kind between the ranks of a replica."""

    kind = text("all_reduce, all_gather, reduce_scatter, all_to_all or send.")
    messages = whole("In one step.")
    bytes_per_message = whole("Of one rank.")
    bytes = whole("Of one rank in one step.")
    seconds = number("Of all; null without bandwidth and peak.", null=True)


class TrafficAnswer(AnswerSchema):
    """What `/traffic` answers: what one decode step reads, and how long it takes. One replica's unless said."""

    question = question()
    taken = taken()
    model = part(AnsweredModel(), "The model.")
    gpu = gpu()
    gpus = gpus()
    engine = part(AnsweredEngine(), "The engine.")
    batch_size = whole("Sequences per replica.", least=1)
    context_tokens = whole("What each holds.", least=1)
    fits = flag("As many sequences of that context fit.")
    weight_traffic_bytes = whole("Weights read by one step, whole model.")
    cache_traffic_bytes = whole("Cache read by one step, whole model.")
    total_traffic_bytes = whole("Both.")
    weight_share = number("Of the total.")
    cache_share = number("Of the total.")
    other_traffic_bytes = whole("Cache writes, state write-back, activations: in step, not in the total.")
    by_kind = rows(KindTraffic(), "Cache traffic by kind.")
    crossover_batch = whole("First batch whose cache traffic passes the weight traffic; null if never.", null=True)
    ridge_batch = whole("Smallest compute-bound batch, weights only; null without bandwidth and peak.", null=True)
    ridge_batch_with_cache = whole("The same with the cache read too; null if no batch gets there.", null=True)
    arithmetic_intensity = number("Operations per byte read.")
    step = part(Step(), "null without bandwidth and peak.", null=True)
    tokens_per_second = number(f"The deployment's; {_UNTOLD}", null=True)
    tokens_per_second_per_sequence = number(_UNTOLD, null=True)
    time_per_output_token_seconds = number(_UNTOLD, null=True)
    speculation = part(Speculation(), "Speculative decoding; null without it.", null=True)
    communication = rows(Exchange(), "What ranks send each other in one step, without a drafter's passes.")
    prefill = part(Prefill(), "Reading the prompts.")
    rank = part(TrafficRank(), "The limiting rank's own traffic.")
    curve = rows(CurveRow(), "curve_batch_sizes × curve_context_tokens; null where neither was asked.", null=True)
    efficiency = part(Efficiency(), "null without bandwidth and peak.", null=True)
    command = command()
    assumptions = sentences("What was taken for granted.")
    warnings = sentences("What may not be as meant.")
    derivation = sentences("The arithmetic, step by step.")
    catalog_revision = whole("The catalog that the answer was computed from.")
    calibration_revision = whole("The calibration that the answer was computed from.")


TRAFFIC_ANSWER = TrafficAnswer()
