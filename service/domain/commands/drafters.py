"""By which method a drafter drafts, where a command names it and no method: as the release tells it by the name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from service.domain.commands.meaning import Understood
    from service.domain.engines.vllm import VllmEngine

_NO_MODEL: Final = {"ngram": "ngram", "[ngram]": "ngram"}
_SHOWN: Final = 80
_OF_ITS_OWN: Final = (
    "is a draft model of its own unless its config says otherwise, and the weights and the cache of one are not quoted:"
    " say by which method it drafts, as the method of --speculative-config does."
)


def settle_drafter(found: Understood, engine: VllmEngine, version: str | None) -> None:
    """Take the method that the drafter's name settles; a draft model of its own is refused."""
    name, spelling = found.take_said("_draft")
    if name is None:
        return
    if found.settings.get("speculative_method") is not None:
        found.ignore(spelling)
        return
    release, shown_name = engine.release(version), name[:_SHOWN]
    method = _NO_MODEL.get(name.casefold()) or engine.drafter_names.method(name, release.release)
    if method is None:
        found.refuse(f"{spelling} {shown_name!r} {_OF_ITS_OWN}")
        return
    found.put("speculative_method", method, spelling)
    found.notes.append(f"{shown_name} is taken to draft by {method}, as vLLM {release.name} tells by its name")
