"""Every command line of tests/data/commands is understood or refused as it says there."""

import pytest

from service.answers import fit_answer, traffic_answer
from service.domain.errors import QuoteError
from tests.domain.commands.command_cases import Case, cases, catalog
from tests.domain.test_asking_again import OVERRIDES, figures

CASES = list(cases())
UNDERSTOOD = [case for case in CASES if "refused" not in case.row]
REFUSED = [case for case in CASES if "refused" in case.row]


def test_there_are_enough_and_half_of_them_have_something_wrong() -> None:
    assert len(CASES) >= 60
    assert len(REFUSED) * 2 >= len(CASES) - 10
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", UNDERSTOOD, ids=lambda case: case.name)
def test_it_is_understood(case: Case) -> None:
    answer = fit_answer(case.asked, catalog())

    assert answer["command"]["set"] == case.row["set"]
    assert answer["command"]["ignored"] == case.row["ignored"]
    assert case.row.get("noted", "") in "\n".join(answer["assumptions"])
    assert [part for part in case.row.get("warned", []) if part not in "\n".join(answer["warnings"])] == []
    assert {answer["taken"][name] for name in case.row["set"] if name not in case.beside} <= {"command"}
    assert {answer["taken"][name] for name in case.beside} <= {"request"}


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.name)
def test_it_is_refused(case: Case) -> None:
    for answer in (fit_answer, traffic_answer):
        with pytest.raises(QuoteError) as refusal:
            answer(case.asked, catalog())

        assert case.row["refused"] in refusal.value.detail
        assert [fault.pointer for fault in refusal.value.faults] == case.row.get("at", ["/command"])


@pytest.mark.parametrize("case", UNDERSTOOD, ids=lambda case: case.name)
def test_its_fields_get_the_same_answer(case: Case) -> None:
    """The same question by name: only what tells of the command may differ."""
    told = ("question", "taken", "command", "assumptions", "warnings")
    for answer in (fit_answer, traffic_answer):
        by_command = answer(case.asked, catalog())
        # A limit that nobody set follows a context that nobody set, also where a lever changes that.
        whole = by_command["taken"]["context_tokens"] == "catalog"
        lengths = set() if whole else {"context_tokens", "context_limit_tokens"}
        fields = {
            name: by_command["question"][name]
            for name, source in by_command["taken"].items()
            if source == "command" or (source == "derived" and name in lengths)
        }
        used = {name: by_command["question"][name] for name in case.beside if name in {"gpus", "gpus_memory_bytes"}}
        by_fields = answer({**case.named, **used, **fields}, catalog())

        assert {k: v for k, v in by_command.items() if k not in told} == {
            k: v for k, v in by_fields.items() if k not in told
        }
        assert {**by_command["question"], "command": None} == by_fields["question"]


def test_a_release_without_the_flag_has_no_ranks_that_share_a_context_by_name_either() -> None:
    question = {"model": "deepseek-v3", "gpu": "h200-sxm-141gb", "engine": "vllm", "tensor_parallel": 8}
    shared = {**question, "context_tokens": 8192, "decode_context_parallel": 2}

    assert fit_answer({**shared, "engine_version": "0.10.2"}, catalog())["fits"] is True
    assert fit_answer({**shared, "engine_version": "0.8.5", "decode_context_parallel": 1}, catalog())["fits"] is True
    for answer in (fit_answer, traffic_answer):
        with pytest.raises(QuoteError, match=r"^vLLM 0\.8\.5: --decode-context-parallel-size .* 0\.10\.2") as refusal:
            answer({**shared, "engine_version": "0.8.5"}, catalog())
        assert [fault.pointer for fault in refusal.value.faults] == ["/decode_context_parallel"]


READ_OTHERWISE = ("no longer one of its flags", "GPUs the command uses")
"""What is said of flags that the release named with the question has not, and of devices chosen among those listed."""


@pytest.mark.parametrize("case", UNDERSTOOD, ids=lambda case: case.name)
def test_its_question_asked_again_has_the_same_answer(case: Case) -> None:
    answer = fit_answer(case.asked, catalog())
    filled = {name: value for name, value in answer["question"].items() if value is not None}
    again = {name: value for name, value in filled.items() if name in case.asked or name not in OVERRIDES}

    if any(said in line for said in READ_OTHERWISE for line in (*answer["warnings"], *answer["assumptions"])):
        with pytest.raises(QuoteError):
            fit_answer(again, catalog())
    else:
        # What the command set is given beside it now.
        found, expected = (figures(each) | {"command": None} for each in (fit_answer(again, catalog()), answer))
        assert found == expected
