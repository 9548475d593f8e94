"""Questions whose command leaves the longest sequence to the engine: the longest that memory holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.domain.holding import hold
from service.domain.question import resolve_heard

if TYPE_CHECKING:
    from service.domain.question import Catalog, Question


def with_fitted_length(question: Question, catalog: Catalog) -> Question:
    """The question started for as many tokens as the engine would choose; itself where it chooses nothing.

    The engine looks how much memory is left with the model's own length, and takes the longest up to it that one
    sequence fits with; sequences of a longer context that is asked are left as asked, and do not fit.
    """
    heard = question.heard
    if heard is None or not heard.fitted:
        return question
    own, asked = question.scenario.limit_tokens, heard.asked.get("context_tokens", 0)
    longest = min(own, hold(question).longest_limit or 0)
    if longest < 1:
        return resolve_heard(heard, catalog, question.named)
    note = f"{heard.fitted}: {longest:,} tokens are the longest that memory holds, of the model's own {own:,}"
    return resolve_heard(heard.with_limit(max(longest, asked), note), catalog, question.named)
