"""What vLLM's flags say of pictures, films and sounds: how many of them, of which size, and where they are embedded."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from service.domain.commands.reading import READERS, MisreadError, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from service.domain.commands.meaning import Understood
    from service.domain.engines.vllm import VllmEngine

_PAIRS = re.compile(r"\w{1,20}=\d{1,6}(?:,\w{1,20}=\d{1,6}){0,15}", re.ASCII)
_NAME = re.compile(r"[a-z_]{1,20}", re.ASCII)
_WITHOUT_PAIRS = "0.10.0"
"""The first release that reads no pairs any more."""
_UNLIMITED = 999
_GREATEST = 10**6
_MOST_MODALITIES = 16
_SIDES = ("width", "height")
_HARMLESS = frozenset({"min_pixels", "use_fast"})
_EDGES = frozenset({"longest_edge", "shortest_edge"})
_WAY_OUT = "leave it out and give encoder_budget_tokens, the budget that logs print for the encoder cache"


def settle_media(found: Understood, engine: VllmEngine, version: str | None) -> None:
    """Settle limits, the arguments of a processor and the mode of an encoder."""
    limits, processor, mode = found.take("_media"), found.take("_processor"), found.take("_encoder_mode")
    if limits is not None:
        _limits(found, limits, pairs=engine.release(version).release < engine.timeline.find(_WITHOUT_PAIRS))
    if processor is not None:
        _processor(found, processor)
    if mode == "data":
        found.put("encoder_data_parallel", value=True, spelling=found.said_by.pop("_encoder_mode"))
    elif mode is not None:
        found.fail(f"{found.said_by.pop('_encoder_mode')} must be weights or data, not {shown(mode)}.")


def _limits(found: Understood, value: Any, *, pairs: bool) -> None:  # noqa: ANN401
    """`{"image": 2, "video": {"count": 1, "width": 512, "height": 512}}` as `image=2` and `video=1@512x512`."""
    spelling = found.said_by.pop("_media")
    try:
        document = _document(value, pairs=pairs)
        entries = [entry for name, each in document.items() for entry in _entry(found, spelling, name, each)]
    except MisreadError as error:
        found.fail(f"{spelling} {error}.")
        return
    if entries:
        found.put("encoder_limits", entries, spelling)


def _document(value: Any, *, pairs: bool) -> Mapping[str, Any]:  # noqa: ANN401
    if isinstance(value, str) and _PAIRS.fullmatch(value.strip()):
        if not pairs:
            raise MisreadError(f"reads JSON alone from {_WITHOUT_PAIRS} on, not {shown(value)}")
        parts = (part.partition("=") for part in value.strip().split(","))
        return {name: int(count) for name, _, count in parts}
    document: Mapping[str, Any] = READERS["keys"](value)
    if len(document) > _MOST_MODALITIES:
        raise MisreadError(f"needs at most {_MOST_MODALITIES} modalities, not {len(document)}")
    return document


def _entry(found: Understood, spelling: str, name: str, value: Any) -> Iterator[str]:  # noqa: ANN401
    """One limit; nothing where it is refused."""
    options = value if isinstance(value, dict) else {"count": value}
    count = options.get("count", _UNLIMITED)
    if not _NAME.fullmatch(name) or type(count) is not int or not 0 <= count < _GREATEST:
        raise MisreadError(f"needs a number of at least 0 for each modality, not {shown(f'{name}: {value}')}")
    sides = [options.get(side) for side in _SIDES]
    others = [key for key, each in options.items() if key not in {"count", *_SIDES} and each is not None]
    given = [side for side in sides if side is not None]
    if any(type(side) is not int or not 0 < side < _GREATEST for side in given):
        raise MisreadError(f"needs a width and a height in pixels, not {shown(str(value))}")
    if count and (others or len(given) == 1):
        key = others[0] if others else _SIDES[sides[0] is None]
        found.refuse(f"{spelling}.{name}.{str(key)[:40]} changes what is profiled and is not modelled: {_WAY_OUT}.")
    elif count and given:
        yield f"{name}={count}@{given[0]}x{given[1]}"
    else:
        yield f"{name}={count}"


def _processor(found: Understood, value: Any) -> None:  # noqa: ANN401
    """The pixels of the largest picture; other arguments may mean anything to a processor."""
    spelling = found.said_by.pop("_processor")
    try:
        document = READERS["keys"](value)
    except MisreadError as error:
        found.fail(f"{spelling} {error}.")
        return
    sizes = document.get("size")
    edges = sizes if isinstance(sizes, dict) else {}
    pixels = document.get("max_pixels", edges.get("longest_edge"))
    known = {"max_pixels", *_HARMLESS, *(["size"] if edges and edges.keys() <= _EDGES else [])}
    strangers = [key for key in document if key not in known]
    if strangers:
        found.refuse(
            f"{spelling}.{str(strangers[0])[:40]} may change how large pictures are and is not modelled: {_WAY_OUT}."
        )
    elif pixels is None:
        found.ignore(spelling)
    elif type(pixels) is not int or pixels < 1:
        found.fail(f"{spelling} needs a number of pixels of at least 1, not {shown(str(pixels))}.")
    else:
        found.put("encoder_image_pixels", pixels, spelling)
