"""`kvquote-probe engine`: the capacity that a running engine has."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, BooleanOptionalAction, Namespace
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from typing import Any

from kvquote_client.errors import KvquoteError
from kvquote_client.transport import Transport
from kvquote_probe.commands import Command, MeasureError, Say
from kvquote_probe.driver import local_gpu
from kvquote_probe.engine.detect import READERS, read_engine
from kvquote_probe.engine.figures import MOST_GPUS, told
from kvquote_probe.engine.logs import read_log
from kvquote_probe.engine.site import TOKEN_VARIABLE, Site
from kvquote_probe.engine.telling import Told, unknown
from kvquote_probe.engine.uniform import is_uniform
from kvquote_probe.names import plain_text
from kvquote_probe.readings import Reading

_ASK_SECONDS = 3.0


def add_arguments(parser: ArgumentParser) -> None:
    """Where the engine is, and what it does not say of itself."""
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("address", nargs="?", help="the engine's address, such as http://127.0.0.1:8000")
    where.add_argument("--log", metavar="FILE", help="read its start-up log instead, - for standard input")
    parser.add_argument("--engine", choices=sorted(READERS), help="which one it is; found out unless said")
    said = parser.add_argument_group(
        "what the engine does not say", f"It may want a token of its own: {TOKEN_VARIABLE}, never sent to the service."
    )
    said.add_argument("--model", metavar="NAME", help="hub id or catalog name, where the engine tells a path")
    said.add_argument("--gpu", metavar="NAME", help="the card, as the driver names it; looked up where it runs here")
    said.add_argument("--gpu-count", type=_count, metavar="N")
    said.add_argument("--tensor-parallel", type=_count, metavar="N")
    said.add_argument("--pipeline-parallel", type=_count, metavar="N")
    said.add_argument("--weight-dtype", metavar="NAME")
    said.add_argument("--kv-dtype", metavar="NAME")
    said.add_argument(
        "--uniform-cache",
        action=BooleanOptionalAction,
        help="all layers of the model cache alike, so that blocks may be counted as tokens; the service is asked else",
    )
    said.add_argument("--kv-unified", action=BooleanOptionalAction, help="llama.cpp: slots share one cache")


def plan(args: Namespace) -> list[str]:
    """What will be asked."""
    if args.log is not None:
        return [f"read the start-up log in {'standard input' if args.log == '-' else args.log}"]
    return [f"ask the engine at {args.address} by a few GET requests; nothing is changed and nothing is generated"]


def run(args: Namespace, say: Say) -> Iterator[Reading]:
    """The readings of the engine or of its log. Raises MeasureError."""
    if args.log is not None:
        yield from read_log(args.log, _told(args, say, here=False))
        return
    with closing(Site(args.address)) as site:
        yield from read_engine(site, _told(args, say, here=site.is_here), args.engine)


def _told(args: Namespace, say: Say, *, here: bool) -> Told:
    return Told(
        gpu=_gpu(args, here=here),
        setup=_setup(args),
        uniform=args.uniform_cache,
        is_uniform=partial(_asked_of_service, args, say) if args.url else unknown,
        unified=args.kv_unified,
    )


def _setup(args: Namespace) -> dict[str, Any]:
    texts = {name: _published(args, name) for name in ("model", "weight_dtype", "kv_dtype")}
    return told({**texts, "tensor_parallel": args.tensor_parallel, "pipeline_parallel": args.pipeline_parallel})


def _published(args: Namespace, name: str) -> str | None:
    """What a person said of a name. Raises MeasureError where it is none that may leave the machine."""
    given = getattr(args, name)
    found = plain_text(given)
    if given is not None and found is None:
        raise MeasureError(f"--{name.replace('_', '-')} is to be a published name: paths and addresses stay here.")
    return found


def _gpu(args: Namespace, *, here: bool) -> dict[str, Any] | None:
    ranks = (args.tensor_parallel or 1) * (args.pipeline_parallel or 1)
    count = args.gpu_count or (ranks if args.tensor_parallel or args.pipeline_parallel else None)
    if args.gpu is not None:
        return told({"name": _published(args, "gpu"), "count": count})
    return local_gpu(count) if here else None


def _asked_of_service(args: Namespace, say: Say, model: str) -> bool | None:
    try:
        with Transport(args.url, args.token, timeout=_ASK_SECONDS, deadline=_ASK_SECONDS, retries=0) as transport:
            found = is_uniform(transport, model)
    except KvquoteError:
        found = None
    if found is None:
        say(f"{args.url} does not say how the layers of {model} cache")
    return found


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= MOST_GPUS):
        raise ArgumentTypeError(f"{text!r} is no number from 1 to {MOST_GPUS}")
    return int(text)


ENGINE = Command(
    name="engine",
    help="the capacity that a running engine has, or had when it wrote its log; needs no torch",
    plan=plan,
    run=run,
    add_arguments=add_arguments,
)
