"""The table of lines: each is found by its hint, dated, and read to its end."""

import pytest

from service.domain.logs.forms import Form, form, sized
from service.domain.logs.grammar import Grammar
from service.domain.logs.reader import GRAMMARS
from service.domain.logs.vllm_forms import FORMS as VLLM

FORMS = [
    pytest.param(grammar, each, id=f"{grammar.engine} {number}: {each.literal}")
    for grammar in GRAMMARS
    for number, each in enumerate(grammar.forms, 1)
]


@pytest.mark.parametrize("grammar, each", FORMS)
def test_every_line_is_found_by_a_hint_and_says_since_when_it_is_printed(grammar: Grammar, each: Form) -> None:
    assert any(hint in each.literal for hint in grammar.hints)
    assert each.since
    assert each.evidence


def test_no_hint_is_for_nothing() -> None:
    for grammar in GRAMMARS:
        literals = grammar.by_literal()
        assert [hint for hint in grammar.hints if not any(hint in literal for literal in literals)] == []


def test_lines_that_begin_a_start_are_lines_that_are_read() -> None:
    for grammar in GRAMMARS:
        marks = grammar.opening | grammar.naming | grammar.reopening | grammar.drafting
        assert marks <= set(grammar.by_literal()), grammar.engine


@pytest.mark.parametrize(
    "said, unit, size, rounding",
    [
        ("14.9888", 1 << 30, 16_094_101_452, 53_688),
        ("0", 1 << 30, 0, (1 << 29) + 1),
        ("7.5", 1, 8, 0),
        ("-1.25", 4, -5, 1),
    ],
)
def test_a_size_is_rounded_once_and_says_by_how_much_it_may_be_off(
    said: str, unit: int, size: int, rounding: int
) -> None:
    assert sized(said, unit) == (size, rounding)


MISSING = "Using default MoE config. Performance might be sub-optimal! Config file not found at"
SIZE = form("Cache: {kv_cache_bytes:gib}[ of {memory_bytes:gib}], <hot|cold>, {blocks:count}", "1", "here")


@pytest.mark.parametrize(
    "line, said",
    [
        ("Cache: 1.5 GiB, hot, 12", {"kv_cache_bytes": 3 << 29, "blocks": 12}),
        ("Cache: 1.5GB of 2 GB, cold, 1,012", {"kv_cache_bytes": 3 << 29, "memory_bytes": 2 << 30, "blocks": 1012}),
        ("Cache:   1.5 Gib,  hot,  12  ", {"kv_cache_bytes": 3 << 29, "blocks": 12}),
    ],
)
def test_a_template_reads_what_it_was_written_for(line: str, said: dict[str, int]) -> None:
    assert {found.name: found.value for found in SIZE.read(line, 0) or ()} == said


@pytest.mark.parametrize(
    "line",
    [
        "Cache: 1.5 Gi",
        "Cache: 1.5, hot, 12",
        "Cache: 1.5 GiB, warm, 12",
        "Cache: 1.5 GiB, hot, 12 and more",
        "Cache: 1,5 GiB, hot, 12",
        "Cache: 1.5 TiB, hot, 12",
        "Cache: 1.5 GiB, hot, ",
        "Cache: ٣ GiB, hot, 12",
    ],
)
def test_a_line_that_is_not_whole_says_nothing(line: str) -> None:
    assert SIZE.read(line, 0) is None


def test_only_what_ends_its_line_may_have_been_cut() -> None:
    found = {each.name: each.open for each in SIZE.read("Cache: 1.5 GiB, hot, 12", 0) or ()}

    assert found == {"kv_cache_bytes": False, "blocks": True}


@pytest.mark.parametrize(
    "line, card",
    [
        (
            "Using configuration from /a/E=256,N=256,device_name=NVIDIA_H20-3e,dtype=fp8_w8a8.json for MoE layer.",
            "NVIDIA H20-3e",
        ),
        (f"{MISSING} ['/a/E=128,N=768,device_name=NVIDIA_GeForce_RTX_4090.json']", "NVIDIA GeForce RTX 4090"),
        (f"{MISSING} /a/device_name=NVIDIA_GB10.json, /b/device_name=NVIDIA_GB10.json", "NVIDIA GB10"),
        (f"{MISSING} /a/E=128,N=768,device_name=NVIDIA_Ge", None),
    ],
)
def test_a_card_is_called_as_its_driver_calls_it(line: str, card: str | None) -> None:
    forms = [each for each in VLLM if each.literal in line]

    found = [said.value for each in forms for said in each.read(line, 0) or ()]

    assert found == ([] if card is None else [card])
