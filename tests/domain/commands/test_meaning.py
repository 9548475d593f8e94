"""What the rows of a flag table may say of a value, also where no row of the catalog says it today."""

from typing import Any

from service.domain.commands.flags import FlagTable
from service.domain.commands.meaning import Meaning, Understood, merged
from service.domain.commands.words import split
from service.domain.engines.versions import parse
from service.domain.errors import Fault, ValidationError

FACTS: dict[str, Any] = {
    "sets": [
        {
            "flags": ["--share"],
            "name": "memory_utilization",
            "reads": "number",
            "unmodelled": {"auto": "give a number"},
        },
        {"flags": ["--cache-types"], "takes": "many", "name": "kv_dtype", "reads": "lower"},
        {"flags": ["--offload-gb"], "name": "cpu_offload_bytes", "reads": "gib"},
        {"flags": ["--no-reuse"], "takes": "optional", "name": "prefix_caching", "reads": "unless"},
        {"flags": ["--extra"], "reads": "keys", "keys": {"size": {"name": "block_tokens", "reads": "count"}}},
    ]
}
TAKES = frozenset({"memory_utilization", "kv_dtype", "cpu_offload_bytes", "prefix_caching", "block_tokens"})


def said(*words: str) -> Understood:
    table = FlagTable(FACTS, parse)
    meaning = Meaning(table, TAKES, "novel")
    meaning.apply(table.parser(None).parse(split(" ".join(words))[0]).given)
    return meaning.found


def test_one_value_of_a_flag_may_be_unmodelled_and_others_not() -> None:
    assert [fault.detail for fault in said("--share Auto").refused] == [
        "--share 'Auto' is not modelled: leave it out and give a number."
    ]
    assert said("--share 0.5").settings == {"memory_utilization": 0.5}


def test_a_flag_of_many_values_sets_a_name_by_one_alone() -> None:
    assert said("--cache-types FP8").settings == {"kv_dtype": "fp8"}

    several = said("--cache-types FP8 bf16")
    assert several.settings == {}
    assert [fault.detail for fault in several.wrong] == ["--cache-types needs one value, not 2."]


def test_gib_are_bytes_to_the_last_one() -> None:
    assert said("--offload-gb 1.5").settings == {"cpu_offload_bytes": 3 << 29}
    assert said("--offload-gb 0.1").settings == {"cpu_offload_bytes": 107_374_182}
    assert "needs a number" in said("--offload-gb much").wrong[0].detail


def test_a_flag_may_say_the_opposite_of_its_name() -> None:
    assert said("--no-reuse on").settings == {"prefix_caching": False}
    assert said("--no-reuse off").settings == {"prefix_caching": True}


def test_keys_of_a_flag_that_matters_by_some_alone_are_ignored_once_each() -> None:
    alike = "k" * 80
    found = said(f'--extra \'{{"size": 32, "other": 1, "{alike}1": 1, "{alike}2": 2}}\'')

    assert found.settings == {"block_tokens": 32}
    assert found.ignored == ["--extra.other", f"--extra.{alike}"]
    assert (found.refused, found.wrong) == ([], [])


def test_a_refusal_points_at_the_command_for_what_the_command_set_alone() -> None:
    error = ValidationError(Fault("/tensor_parallel", "3 is odd."), Fault("/concurrency", "It is below 1."))

    assert merged(error, {"tensor_parallel": "-tp"}).faults == (
        Fault("/command", "3 is odd. (-tp of the command.)"),
        Fault("/concurrency", "It is below 1."),
    )
