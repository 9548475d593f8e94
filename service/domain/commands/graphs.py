"""What a command's levels of optimization and modes of compilation say of the graphs that vLLM captures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from service.domain.engines.vllm.graph_rules import NO_GRAPHS, PIECES, PIECES_AND_STEPS, STEPS

if TYPE_CHECKING:
    from service.domain.commands.meaning import Understood
    from service.domain.engines.vllm import VllmEngine

_MODES: Final = {
    "0": 0,
    "none": 0,
    "1": 1,
    "stock_torch_compile": 1,
    "dynamo_as_is": 1,
    "2": 2,
    "dynamo_trace_once": 2,
    "dynamo_once": 2,
    "3": 3,
    "vllm_compile": 3,
    "piecewise": 3,
}
_MOST_LEVEL: Final = 3
_LEVELS_SINCE: Final = "0.12.0"
"""The first release read whose -O is a level; in engine/arg_utils.py of 0.11.2 it is another --compilation-config."""
_WITHOUT_PIECES: Final = {PIECES: NO_GRAPHS, PIECES_AND_STEPS: STEPS}
"""What is left of a mode where no step is cut into pieces."""


def settle_graphs(found: Understood, engine: VllmEngine, version: str | None) -> None:
    """Turn levels and modes into `enforce_eager` or `graph_mode`; what compiles otherwise is refused."""
    release = engine.release(version)
    (level, by_level), (mode, by_mode) = found.take_said("_level"), found.take_said("_compile_mode")
    if level is not None and release.release < engine.timeline.find(_LEVELS_SINCE):
        level, mode, by_mode = None, str(level), by_level
    if level is not None:
        _level(found, level, by_level)
    if mode is not None:
        keeps = release.cores["v1"].graphs.kept_without_pieces
        _mode(found, _MODES.get(str(mode)), f"{by_mode} {str(mode)[:40]}", by_mode, keeps=keeps)


def _level(found: Understood, level: int, spelling: str) -> None:
    if not 0 <= level <= _MOST_LEVEL:
        found.fail(f"{spelling} must be from 0 to {_MOST_LEVEL}, not {level}.")
    elif level > 1:
        found.ignore(spelling)
    elif found.known("graph_mode") not in {None, PIECES if level else None}:
        found.refuse(f"{spelling} {level} beside a cudagraph_mode is not modelled: leave one of them out.")
    elif level == 0:
        found.put("enforce_eager", value=True, spelling=spelling)
    elif found.known("tensor_parallel", 1) > 1:
        found.refuse(
            f"{spelling} 1 fuses no all-reduce, whose buffers are not told apart: leave it out, with cudagraph_mode"
            " PIECEWISE in --compilation-config for the graphs that it captures."
        )
    else:
        found.put("graph_mode", PIECES, spelling)


def _mode(found: Understood, mode: int | None, what: str, spelling: str, *, keeps: bool) -> None:
    """Without compilation no step is cut into pieces: none are captured, or whole ones alone."""
    if mode == _MODES["vllm_compile"]:
        found.ignore(spelling)
        return
    if mode != 0:
        found.refuse(f"{what} is not modelled: only 0 and 3 are.")
        return
    graphs = found.known("graph_mode", PIECES_AND_STEPS)
    if graphs in _WITHOUT_PIECES:
        graphs = _WITHOUT_PIECES[graphs] if keeps else NO_GRAPHS
    if graphs == NO_GRAPHS or found.known("enforce_eager"):
        found.settings.pop("graph_mode", None)
        found.put("enforce_eager", value=True, spelling=found.said_by.pop("graph_mode", spelling))
    else:
        found.refuse(f"{what} captures whole steps that are not compiled, which is not modelled: give enforce_eager.")
