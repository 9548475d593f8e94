"""The commands, the options that all of them take, and what was typed."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from kvquote_client import __version__
from kvquote_client.cli.browsing import add_listing
from kvquote_client.cli.listing import LISTINGS
from kvquote_client.cli.logs import add_logs
from kvquote_client.cli.options import Parser, number, whole
from kvquote_client.cli.quoting import add_compare, add_fit, add_traffic

if TYPE_CHECKING:
    from collections.abc import Sequence

DEFAULT_URL: Final = "http://127.0.0.1:8000"
_EXAMPLES: Final = """examples:
  kvquote fit llama-3.1-8b-instruct h100-sxm-80gb --context 8192 --engine vllm
  kvquote fit llama-3.1-8b-instruct l4 --context 8192 --require 32 || echo too small
  kvquote fit --gpu h100-sxm-80gb -- vllm serve meta-llama/Llama-3.1-8B-Instruct --max-model-len 8192
  kvquote traffic llama-3.1-8b-instruct h100-sxm-80gb --context 8192 --curve-batch-sizes 1,8,64
  kvquote compare llama-3.1-8b-instruct l4,a10,h100-sxm-80gb --context 8192 --csv
  kubectl logs POD | kvquote logs - --gpu h100-sxm-80gb
  kvquote gpus --min-memory-bytes 80GB --no-mig
  kvquote calibrations --gpu h100-sxm-80gb --usable

exit codes:
  0 answered   1 --require is not met   2 what was typed makes no sense
  3 the service refused; of `compare` a pair, of `logs` the quote
  4 no answer could be had   70 a fault of kvquote itself
"""
_QUESTIONS: Final = {
    "fit": (add_fit, "how many sequences fit a GPU, and what takes the memory"),
    "traffic": (add_traffic, "what one decode step reads, and how long it takes"),
    "compare": (add_compare, "one model over several GPUs, or several models on one"),
}
_NOT_GIVEN: Final = {
    "form": "text",
    "url": None,
    "local": False,
    "database": None,
    "token": None,
    "timeout": None,
    "deadline": None,
    "retries": None,
}


def asked_for(words: Sequence[str]) -> argparse.Namespace:
    """What was typed. The words after `--` are an engine's command; ends with 2 where nobody can make sense of them."""
    end = words.index("--") if "--" in words else len(words)
    parser, commands = _parsers()
    asked, left = parser.parse_known_args(words[:end], argparse.Namespace(**_NOT_GIVEN))
    command = commands[asked.task]
    command.refuse_unknown(left, starts_engines=asked.task in _QUESTIONS)
    asked.words = list(words[end + 1 :])
    if end < len(words) and not asked.words:
        command.error("after -- there is no engine's command")
    if asked.words and asked.task not in _QUESTIONS:
        command.error("only a question takes an engine's command after --")
    return asked


def _parsers() -> tuple[Parser, dict[str, Parser]]:
    parser = Parser(
        prog="kvquote",
        description="Quote LLM-serving capacity: how many sequences fit, what takes the memory, what a step reads.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"kvquote {__version__}")
    _add_common(parser)
    subparsers = parser.add_subparsers(dest="task", required=True, metavar="COMMAND")
    made: dict[str, Parser] = {}
    for name, (add, words) in _QUESTIONS.items():
        usage = f"kvquote {name} [MODEL] [GPU] [OPTION …] [-- ENGINE'S COMMAND]"
        told = f"{words[0].upper()}{words[1:]}."
        made[name] = subparsers.add_parser(name, help=words, description=told, usage=usage)
        add(made[name])
    words = "what an engine's start-up log says, beside what would have been quoted"
    usage = "kvquote logs FILE|- [OPTION …]"
    made["logs"] = subparsers.add_parser("logs", help=words, description=f"Show {words}.", usage=usage)
    add_logs(made["logs"])
    for name, listing in LISTINGS.items():
        usage = f"kvquote {name} {'[NAME] ' if listing.has_entries else ''}[OPTION …]"
        told = f"List {listing.words}{', or show one' if listing.has_entries else ''}."
        made[name] = subparsers.add_parser(name, help=listing.words, description=told, usage=usage)
        add_listing(name, made[name])
    for each in made.values():
        _add_common(each)
    return parser, made


def _add_common(parser: Parser) -> None:
    """The options that may stand before and behind the command; what is not given is left to the other place."""
    group = parser.add_argument_group("how to ask, and how to be answered")
    form = group.add_mutually_exclusive_group()
    for name, words in (("json", "the answer as it comes"), ("csv", "its figures as rows")):
        form.add_argument(
            f"--{name}", dest="form", action="store_const", const=name, default=argparse.SUPPRESS, help=words
        )

    def option(name: str, words: str, **how: object) -> None:
        group.add_argument(f"--{name}", default=argparse.SUPPRESS, help=words, **how)  # type: ignore[arg-type]

    option("url", f"the service; default: KVQUOTE_URL, or {DEFAULT_URL}")
    option("local", "ask the service package installed beside, without a network", action="store_true")
    option("database", "with --local: its SQLite file; default: one in the user's cache", metavar="FILE")
    option("token", "default: KVQUOTE_TOKEN, which others on the machine do not see")
    option("timeout", "to connect, and between two pieces of an answer", metavar="SECONDS", type=_seconds)
    option("deadline", "for a whole request, with its tries; default 300", metavar="SECONDS", type=_seconds)
    option("retries", "how often to ask again what may pass; default 3", metavar="N", type=_tries)


def _seconds(text: str) -> float:
    seconds = number(text)
    if seconds <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no time to wait")
    return seconds


def _tries(text: str) -> int:
    tries = whole(text)
    if tries < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of tries")
    return tries
