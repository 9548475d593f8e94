"""What every engine's answer must be: a ledger that closes, figures that agree, levers that come true."""

from typing import Any

from service.domain.errors import QuoteError
from service.domain.question import resolve
from service.domain.quote import fit
from tests.domain.conftest import Shelf

SHELF = Shelf()
_NONE_STARTS = frozenset({"weights", "reserve", "free_memory"})


def parts(answer: dict[str, Any]) -> dict[str, int]:
    return {part["name"]: part["bytes"] for part in answer["ledger"]["parts"]}


def ask(question: dict[str, Any]) -> dict[str, Any] | None:
    """The answer, None where the question is refused by name."""
    try:
        return fit(resolve(question, SHELF), SHELF)
    except QuoteError:
        return None


def check_agrees(answer: dict[str, Any]) -> None:
    ledger = answer["ledger"]
    assert sum(part["bytes"] for part in ledger["parts"]) == ledger["memory_bytes"] + ledger["overcommitted_bytes"]
    assert all(part["bytes"] >= 0 for part in ledger["parts"])
    assert answer["max_running_sequences"] <= answer["max_sequences"]
    assert (answer["shortage"] is None) == answer["fits"]
    assert not (answer["fits"] and ledger["overcommitted_bytes"])
    assert answer["fits"] or answer["max_sequences"] < answer["question"]["batch_size"] or _refused(answer)
    check_interval(answer)
    if answer["binding"]["constraint"] not in _NONE_STARTS:
        assert answer["binding"]["to_gain_one_sequence_bytes"] > 0


def check_interval(answer: dict[str, Any]) -> None:
    """What the evidence allows has what is answered in it, for each figure."""
    found = {name: answer[name] for name in ("max_sequences", "max_concurrency")}
    for name, value in (found | {"kv_cache_bytes": parts(answer)["kv_cache"]}).items():
        low, high = answer["interval"][name]
        assert low <= value <= high, name


def _refused(answer: dict[str, Any]) -> bool:
    return answer["ledger"]["overcommitted_bytes"] > 0 or answer["binding"]["constraint"] in {"context_limit", "dtype"}


def check_levers(question: dict[str, Any], answer: dict[str, Any]) -> None:
    for lever in answer["levers"]:
        changed = ask(question | lever["change"])
        assert changed is not None
        assert changed["max_sequences"] == lever["max_sequences"]
        assert lever["gain"] == lever["max_sequences"] - answer["max_sequences"] > 0
