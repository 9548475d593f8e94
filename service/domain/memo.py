"""What is worked out of a model's shapes once, and kept with the model while it is among the newest of the process."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final
from weakref import ref

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from service.domain.model import Model

KEPT: Final = 32_768
"""Entries of all models together: a thousand different questions to vLLM need some 9,000, to engine `none` some 900."""

# The order in which they were made. A model that was replaced is not kept alive by it. Threads need no lock: each step
# is whole by itself, and two that make the same thing count it twice, which lets an old one go a little early.
_made: deque[ref[Model]] = deque()


def remembered(model: Model, key: Hashable, make: Callable[[], Any]) -> Any:  # noqa: ANN401  # as it was made
    """What was worked out of the model's shapes under that key, or is now; the oldest goes beyond a bounded number."""
    found = model.memo.get(key)
    if found is None:
        found = make()
        _keep(model, key, found)
    return found


def _keep(model: Model, key: Hashable, found: object) -> None:
    # The model of a question's own config goes with its question.
    if model.id is not None and key not in model.memo:
        _made.append(ref(model))
    model.memo[key] = found
    if len(_made) > KEPT:
        _drop_first(_made.popleft()())
    elif len(model.memo) > KEPT:
        _drop_first(model)


def _drop_first(model: Model | None) -> None:
    """A memo has its entries in the order in which they were made; that of a model that is gone went with it."""
    if model is not None:
        for oldest in list(model.memo)[:1]:
            model.memo.pop(oldest, None)
