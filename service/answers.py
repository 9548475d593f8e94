"""The few functions that the web API, the page and the command line share: load, compute, answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from service.domain.errors import QuoteError
from service.domain.fitting import with_fitted_length
from service.domain.question import Question, resolve
from service.domain.quote import fit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from service.domain.logs import LogReading
    from service.domain.question import Catalog


def fit_answer(asked: Mapping[str, Any], catalog: Catalog) -> dict[str, Any]:
    """How many sequences fit: the answer of `/fit`; `asked` holds validated names only, absent ones left out.

    Raises QuoteError with a pointer to each name that cannot be answered.
    """
    return _answered(fit, asked, catalog)


def traffic_answer(asked: Mapping[str, Any], catalog: Catalog) -> dict[str, Any]:
    """What a decode step reads: the answer of `/traffic`; as `fit_answer`."""
    # Nothing of it is needed to say what fits, and many processes are asked nothing else.
    from service.domain.traffic_quote import traffic  # noqa: PLC0415

    return _answered(traffic, asked, catalog)


def log_answer(reading: LogReading, given: Mapping[str, Any], catalog: Catalog) -> dict[str, Any]:
    """What a start-up log says beside what would be quoted: the answer of `/logs`."""
    # Most processes never meet a log.
    from service.domain import log_answer as logs  # noqa: PLC0415

    return logs.log_answer(reading, given, catalog)


def _answered(
    compute: Callable[[Question, Catalog], dict[str, Any]], asked: Mapping[str, Any], catalog: Catalog
) -> dict[str, Any]:
    """The answer; what is refused of names that a command set points at the command."""
    question = resolve(asked, catalog)
    try:
        question = with_fitted_length(question, catalog)
        return compute(question, catalog)
    except QuoteError as error:
        raise question.pointed(error) from error
