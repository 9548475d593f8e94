"""What others were seen to quote wrongly, by up to 20 times: right here, over the catalog's own entries."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from marshmallow import ValidationError

from service.api.schemas.question import FitQuestion
from tests.domain.conftest import Ask

QUOTES = yaml.safe_load((Path(__file__).parents[1] / "data" / "wrong_quotes.yaml").read_text())


def figure(answer: dict[str, Any], path: str) -> float:
    """The figure at the path; of a list the row of that name or kind, or the sum over all."""
    first, *rest = path.split(".")
    if first == "ledger":
        return sum(float(part["bytes"]) for part in answer["ledger"]["parts"] if part["name"] == rest[0])
    if first == "by_kind":
        return sum(float(row["bytes"]) for row in answer["by_kind"] if row["kind"] == rest[0])
    if first == "cache":
        return sum(float(row[rest[1]]) for row in answer["cache"] if rest[0] in {"*", row["kind"]})
    found: Any = answer
    for key in (first, *rest):
        found = found[key]
    return float(found)


@pytest.mark.parametrize("quote", QUOTES, ids=lambda quote: quote["id"])
def test_what_others_quote_wrongly_is_right_here(quote: dict[str, Any], ask_fit: Ask, ask_traffic: Ask) -> None:
    ask = {"fit": ask_fit, "traffic": ask_traffic}[quote.get("endpoint", "fit")]
    found = figure(ask(**quote["question"]), quote["where"]) / quote.get("unit", 1)

    assert found == pytest.approx(quote["right"], rel=quote.get("within", 0), abs=0)
    assert found != pytest.approx(quote["wrong"], rel=0.05)


def test_a_utilization_above_the_whole_is_refused() -> None:
    with pytest.raises(ValidationError, match="memory_utilization"):
        FitQuestion().load({"model": "llama-2-7b", "memory_bytes": 80_000_000_000, "memory_utilization": 1.7})
