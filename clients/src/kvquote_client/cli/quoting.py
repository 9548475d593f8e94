"""The commands `fit`, `traffic` and `compare`."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kvquote_client.cli.codes import NOT_MET, REFUSED
from kvquote_client.cli.figures import size, whole
from kvquote_client.cli.options import Parser, add_table, count, given
from kvquote_client.cli.output import complain
from kvquote_client.errors import InvalidInput, Refused, Unavailable
from kvquote_client.question import Question, TrafficQuestion

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from kvquote_client.answers import FitAnswer
    from kvquote_client.cli.output import Output
    from kvquote_client.client import Client

_DASH: Final = "-"


def add_fit(parser: Parser) -> None:
    """`kvquote fit`."""
    _add_names(parser, "MODEL", "GPU", Question)
    parser.add_argument("--require", type=count, metavar="N", help="end with 1 where fewer sequences can run")
    parser.set_defaults(run=fit)


def add_traffic(parser: Parser) -> None:
    """`kvquote traffic`."""
    _add_names(parser, "MODEL", "GPU", TrafficQuestion)
    parser.set_defaults(run=traffic)


def add_compare(parser: Parser) -> None:
    """`kvquote compare`."""
    _add_names(parser, "MODEL,MODEL,…", "GPU,GPU,…", Question)
    parser.add_argument("--require", type=count, metavar="N", help="end with 1 where none can run so many")
    parser.set_defaults(run=compare)


def fit(asked: argparse.Namespace, client: Client, output: Output) -> int:
    """Quote one model on one GPU; 1 where it holds less than --require."""
    from kvquote_client.cli.fit_text import lines
    from kvquote_client.cli.rows import flat

    answer = client.fit(**_question(asked, Question))
    output.tell(answer.raw, [flat(answer)], lines(answer, output.screen, why=asked.why))
    return 0 if _meets(answer, asked.require) else NOT_MET


def traffic(asked: argparse.Namespace, client: Client, output: Output) -> int:
    """What one decode step reads, and how long it takes; the rows of a curve are the rows of --csv."""
    from kvquote_client.cli.rows import flat
    from kvquote_client.cli.traffic_text import lines

    answer = client.traffic(**_question(asked, TrafficQuestion))
    rows = [row.raw for row in answer.curve or ()] or [flat(answer)]
    output.tell(answer.raw, rows, lines(answer, output.screen, why=asked.why))
    return 0


def compare(asked: argparse.Namespace, client: Client, output: Output) -> int:
    """Every model named on every GPU named, a row each; 3 where one was refused, 1 where none holds --require."""
    from kvquote_client.cli.rows import flat

    question = _question(asked, Question)
    models, gpus = (_names(name, question.pop(name, None)) for name in ("model", "gpu"))
    pairs = [_compared(client, question, model, gpu) for model in models for gpu in gpus]
    rows = [
        {"model": pair.model, "gpu": pair.gpu, "refused": pair.why, **(flat(pair.answer) if pair.answer else {})}
        for pair in pairs
    ]
    output.tell({"items": [pair.document() for pair in pairs]}, rows, _table(pairs, output))
    refused = [pair for pair in pairs if pair.answer is None]
    if refused:
        # The others are told, as `ls` tells of those that are there; a name mistyped must not pass unseen.
        complain(f"{len(refused)} of {len(pairs)} refused: {refused[0].named}: {refused[0].why}")
        return REFUSED
    return 0 if any(pair.answer and _meets(pair.answer, asked.require) for pair in pairs) else NOT_MET


class Pair(NamedTuple):
    """A model on a GPU: what was answered, or why not."""

    model: str | None
    gpu: str | None
    answer: FitAnswer | None
    refused: Refused | None

    @property
    def said(self) -> Mapping[str, Any]:
        """What the service sent, one or the other."""
        return self.answer.raw if self.answer else self.refused.problem if self.refused else {}

    @property
    def named(self) -> str:
        """Both names, as far as they were given."""
        return " on ".join(filter(None, (self.model, self.gpu))) or "the question"

    @property
    def why(self) -> str | None:
        """Why it was refused, by its first fault; None where it was not."""
        if self.refused is None:
            return None
        faults = self.refused.errors
        return str(faults[0].get("detail") if faults else self.refused.detail or self.refused.title)

    def document(self) -> dict[str, Any]:
        """The pair as JSON."""
        key, other = ("answer", "problem") if self.answer else ("problem", "answer")
        return {"model": self.model, "gpu": self.gpu, key: self.said, other: None}


def _compared(client: Client, question: Mapping[str, Any], model: str | None, gpu: str | None) -> Pair:
    named = {name: value for name, value in (("model", model), ("gpu", gpu)) if value is not None}
    try:
        return Pair(model, gpu, client.fit(**{**question, **named}), None)
    except Unavailable:
        raise
    except Refused as refused:
        return Pair(model, gpu, None, refused)


def _table(pairs: Sequence[Pair], output: Output) -> list[str]:
    header = ["model", "gpu", "sequences", "fits", "longest", "weights", "KV cache", "limit"]
    return output.screen.table(header, [_cells(pair) for pair in pairs])


def _cells(pair: Pair) -> list[str]:
    names = [pair.model or _DASH, pair.gpu or _DASH]
    answer = pair.answer
    if answer is None:
        return [*names, _DASH, "refused", _DASH, _DASH, _DASH, str(pair.why)]
    pool = next((part.bytes for part in answer.ledger.parts if part.name == "kv_cache"), None)
    limit = answer.shortage or answer.binding
    longest = whole(answer.max_context_tokens)
    held = [whole(answer.max_running_sequences), "yes" if answer.fits else "no", longest]
    return [*names, *held, size(answer.weight_bytes), size(pool), limit.constraint or _DASH]


def _meets(answer: FitAnswer, required: int | None) -> bool:
    return required is None or bool(answer.fits and answer.max_running_sequences >= required)


def _add_names(parser: Parser, model: str, gpu: str, table: type) -> None:
    parser.add_argument("model_word", nargs="?", metavar=model, help="slug, hub id or alias; or --model, or --config")
    parser.add_argument("gpu_word", nargs="?", metavar=gpu, help="slug, alias or what the driver calls it; or --gpu")
    parser.add_argument("--why", action="store_true", help="show what was assumed, and how it was counted")
    add_table(parser, "the question", table)


def _question(asked: argparse.Namespace, table: type) -> dict[str, Any]:
    """The question as typed; what stands after `--` is the engine's command."""
    question = given(asked, table)
    for name in ("model", "gpu"):
        _put(question, name, getattr(asked, f"{name}_word"))
    _put(question, "command", shlex.join(asked.words) if asked.words else None)
    required = getattr(asked, "require", None)
    if required is not None:
        # What is asked is whether so many fit; then `fits` and `shortage` speak of them.
        question.setdefault("batch_size", required)
    return question


def _put(question: dict[str, Any], name: str, value: str | None) -> None:
    if value is not None and question.setdefault(name, value) != value:
        raise InvalidInput(f"{name} is given twice: {value!r} and {question[name]!r}")


def _names(what: str, listed: str | None) -> Sequence[str | None]:
    if listed is None:
        return [None]
    found = [name.strip() for name in listed.split(",") if name.strip()]
    if not found:
        raise InvalidInput(f"{listed!r} names no {what}")
    return found
