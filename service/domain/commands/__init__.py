"""Engines' command lines: read as their own parsers read them, and said in the words of a question.

`hear` is for a question with a `command`, `understand` for settings that an engine prints in its log. What reads them
is imported when the first one is: most questions have none, and it takes a third of Flask's time to import.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.domain.commands.asking import Heard
    from service.domain.commands.meaning import Understood
    from service.domain.engines import ServingEngine
    from service.domain.question import Catalog

__all__ = ["hear", "understand"]


def hear(asked: Mapping[str, Any], catalog: Catalog) -> Heard:
    """Read the command of a question; raises QuoteError at `/command` for whatever is not understood or contradicts."""
    from service.domain.commands.asking import heard  # noqa: PLC0415

    return heard(asked, catalog)


def understand(
    engine: ServingEngine,
    given: Mapping[str, Any],
    version: str | None = None,
    beside: Mapping[str, Any] = MappingProxyType({}),
) -> Understood:
    """What settings say that an engine prints, by destination or flag: `{"tensor_parallel_size": 2, "dtype": …}`.

    `beside` are names of a question that are given too. Nothing is raised: `refused` and `wrong` say what is not
    modelled and what cannot be, names that no release knows are in `wrong`. `settings` has names of the question;
    `model` is as printed, and `_dtype` and `_quantization` are left, which mean something only beside what the
    checkpoint is stored in (`models.settle_weights`).
    """
    from service.domain.commands.meaning import Meaning  # noqa: PLC0415
    from service.domain.commands.settling import settle  # noqa: PLC0415

    table = engine.flags
    meaning = Meaning(table, engine.takes, engine.name)
    for word, value in given.items():
        flag = table.dest(str(word))
        if flag is None:
            meaning.found.fail(f"{engine.name} has no setting {str(word)[:80]}.")
        else:
            meaning.one(flag, str(word), value)
    settle(meaning.found, engine, version, beside)
    return meaning.found
