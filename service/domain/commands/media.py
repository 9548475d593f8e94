"""What vLLM's flags say of pictures, films and sounds: how many of them, of which size, and where they are embedded."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any

from service.domain.commands.reading import MisreadError, document, shown
from service.domain.engines.vllm.media_rules import GIVE_BUDGET, MODALITIES
from service.domain.errors import nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from service.domain.commands.meaning import Understood
    from service.domain.engines.vllm import VllmEngine

_PAIRS = re.compile(r"\w{1,20}=\d{1,6}(?:,\w{1,20}=\d{1,6}){0,15}", re.ASCII)
_WITHOUT_PAIRS = "0.10.0"
"""The first release whose engine/arg_utils.py has no nullable_kvs any more, which read pairs."""
_UNLIMITED = 999
_GREATEST = 10**6
_MOST_MODALITIES = 16
_SIDES = ("width", "height")
_HARMLESS = frozenset({"min_pixels", "use_fast"})
_EDGES = frozenset({"longest_edge", "shortest_edge"})
_WAY_OUT = f"leave it out and {GIVE_BUDGET}"
_SHOWN = 40


def settle_media(found: Understood, engine: VllmEngine, version: str | None) -> None:
    """Settle limits, the arguments of a processor and the mode of an encoder."""
    pairs = engine.release(version).release < engine.timeline.find(_WITHOUT_PAIRS)
    settlers: Mapping[str, Callable[[Understood, Any, str], None]] = {
        "_media": partial(_limits, pairs=pairs),
        "_processor": _processor,
        "_encoder_mode": _mode,
    }
    for name, settler in settlers.items():
        value, spelling = found.take_said(name)
        if value is None:
            continue
        try:
            settler(found, value, spelling)
        except MisreadError as error:
            found.fail(f"{spelling} {error}.")


def _mode(found: Understood, mode: str, spelling: str) -> None:
    if mode == "data":
        found.put("encoder_data_parallel", value=True, spelling=spelling)
    else:
        raise MisreadError(f"must be weights or data, not {shown(mode)}")


def _limits(found: Understood, value: Any, spelling: str, *, pairs: bool) -> None:  # noqa: ANN401
    """`{"image": 2, "video": {"count": 1, "width": 512, "height": 512}}` as `image=2` and `video=1@512x512`."""
    stated = _stated(value, pairs=pairs)
    read = {name: list(_entry(found, spelling, name, each)) for name, each in stated.items()}
    for name in [each for each in read if each not in MODALITIES]:
        _ignore_stranger(found, f"{spelling}.{name[:_SHOWN]}", name)
    entries = [entry for name in stated if name in MODALITIES for entry in read[name]]
    if entries:
        found.put("encoder_limits", entries, spelling)


def _ignore_stranger(found: Understood, path: str, name: str) -> None:
    """Say that a limit of nothing has no effect: releases take any name, and none starts otherwise for it."""
    close = nearest(name, MODALITIES)
    hint = f" Did you mean {close[0]}?" if close else ""
    found.warnings.append(f"{path} limits nothing: vLLM knows no such modality, and starts all the same.{hint}")
    found.ignore(path)


def _stated(value: Any, *, pairs: bool) -> Mapping[str, Any]:  # noqa: ANN401
    if isinstance(value, str) and _PAIRS.fullmatch(value.strip()):
        if not pairs:
            raise MisreadError(f"reads JSON alone from {_WITHOUT_PAIRS} on, not {shown(value)}")
        parts = (part.partition("=") for part in value.strip().split(","))
        return {name: int(count) for name, _, count in parts}
    stated = document(value)
    if len(stated) > _MOST_MODALITIES:
        raise MisreadError(f"needs at most {_MOST_MODALITIES} modalities, not {len(stated)}")
    return stated


def _entry(found: Understood, spelling: str, name: str, value: Any) -> Iterator[str]:  # noqa: ANN401
    """One limit; nothing where it is refused."""
    options = value if isinstance(value, dict) else {"count": value}
    count = options.get("count", _UNLIMITED)
    if type(count) is not int or not 0 <= count < _GREATEST:
        raise MisreadError(f"needs a number of at least 0 for each modality, not {shown(f'{name}: {value}')}")
    sides = {side: options[side] for side in _SIDES if options.get(side) is not None}
    if any(type(pixels) is not int or not 0 < pixels < _GREATEST for pixels in sides.values()):
        raise MisreadError(f"needs a width and a height in pixels, not {shown(str(value))}")
    others = [key for key, each in options.items() if key not in {"count", *_SIDES} and each is not None]
    if count and (others or len(sides) == 1):
        key = str([*others, *sides][0])[:_SHOWN]
        found.refuse(f"{spelling}.{name}.{key} changes what is profiled and is not modelled: {_WAY_OUT}.")
    else:
        yield f"{name}={count}" + (f"@{sides['width']}x{sides['height']}" if count and sides else "")


def _processor(found: Understood, value: Any, spelling: str) -> None:  # noqa: ANN401
    """The pixels of the largest picture; other arguments may mean anything to a processor."""
    arguments = document(value)
    size = arguments.get("size")
    edges = size if isinstance(size, dict) and size.keys() <= _EDGES else {}
    known = _HARMLESS | ({"max_pixels", "size"} if edges else {"max_pixels"})
    strangers = [str(key)[:_SHOWN] for key in arguments if key not in known]
    pixels = arguments.get("max_pixels", edges.get("longest_edge"))
    if strangers:
        what = f"{spelling}.{strangers[0]}"
        found.refuse(f"{what} may change how large pictures are and is not modelled: {_WAY_OUT}.")
    elif pixels is None:
        found.ignore(spelling)
    elif type(pixels) is not int or pixels < 1:
        raise MisreadError(f"needs a number of pixels of at least 1, not {shown(str(pixels))}")
    else:
        found.put("encoder_image_pixels", pixels, spelling)
