"""Whatever is sent as a command: a refusal or an answer, and soon."""

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from service.answers import fit_answer
from service.domain.commands import hear, understand
from service.domain.engines.plain import PlainEngine
from service.domain.errors import QuoteError
from tests.computing import quickly
from tests.domain.commands.command_cases import cases, catalog

COMMANDS = sorted(case.command for case in cases())
ENGINES = ("vllm", "sglang", "tensorrt-llm", "llama.cpp")
PROGRAMS = ("vllm serve", "python -m sglang.launch_server", "trtllm-serve", "llama-server", "docker run", "sudo", "")
LONG = 65_536


def spellings() -> list[str]:
    found = []
    for name in ENGINES:
        engine = catalog().engine(name)
        assert not isinstance(engine, PlainEngine)
        found += [spelling for flag in engine.flags.flags for spelling in (*flag.spellings, *flag.negatives)]
    return sorted(set(found))


VALUES = st.one_of(
    st.sampled_from(
        ["1", "-1", "0", "1e400", "NaN", "9" * 400, "32k", "auto", "Qwen/Qwen3-8B", "{}", "[]", '{"a":{}}', ""]
    ),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12),
)


def heard(command: str, **beside: Any) -> bool:  # noqa: ANN401
    """Whether it is understood, or refused with a sentence."""
    try:
        hear({"command": command, **beside}, catalog())
    except QuoteError as error:
        return any(fault.detail for fault in error.faults)
    return True


@given(st.text(st.characters(codec="utf-8"), max_size=200), st.sampled_from([None, *ENGINES, "none"]))
def test_any_text_is_refused_or_understood(text: str, engine: str | None) -> None:
    assert heard(text, **({"engine": engine} if engine else {}))


@given(
    st.sampled_from(PROGRAMS),
    st.lists(st.tuples(st.sampled_from(spellings()), st.sampled_from([" ", "=", "."]), VALUES), max_size=6),
    st.sampled_from([None, *ENGINES]),
)
@settings(max_examples=100)
def test_any_flags_with_any_values_are_refused_or_understood(
    program: str, flags: list[tuple[str, str, str]], engine: str | None
) -> None:
    words = " ".join(f"{flag}{between}{value}" for flag, between, value in flags)
    assert heard(f"{program} Qwen/Qwen3-8B {words}", **({"engine": engine} if engine else {}))


@given(st.sampled_from(COMMANDS), st.data())
def test_a_command_that_is_cut_or_doubled_is_refused_or_answered(command: str, data: st.DataObject) -> None:
    start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(command))] * 2)))
    for changed in (command[start:end], command[:start] + command[end:], command[:end] + command[start:]):
        try:
            answer = fit_answer({"command": changed, "gpu": "h200-sxm-141gb"}, catalog())
        except QuoteError:
            continue
        assert answer["command"]["engine"] == answer["engine"]["name"]


HOSTILE = {
    "many words": "vllm serve " + "x " * 900,
    "open quotes": "vllm serve m " + "'" * LONG,
    "backslashes": 'vllm serve m "' + "\\" * LONG,
    "open substitutions": "vllm serve m " + "$(" * (LONG // 2),
    "backticks": "vllm serve m " + "`" * (LONG - 1),
    "open variables": "vllm serve m " + "${" * (LONG // 2),
    "sudo of sudo": "sudo " * 900 + "vllm serve m",
    "env of env": "env A=1 " * 400 + "vllm serve m",
    "shells in shells": "bash -c '" * 400,
    "many variables": "A=1;" * 500 + "vllm serve $A",
    "a variable of itself": "A=$A$A;" * 400 + "vllm serve $A",
    "variables that double": "A0=x;" + "".join(f"A{n + 1}=$A{n}$A{n};" for n in range(400)) + "vllm serve $A400",
    "a deep key": "vllm serve m --speculative-config." + "a." * 20_000 + "b 1",
    "a deep object": "vllm serve m --speculative-config '" + '{"a":' * 10_000 + "1" + "}" * 10_000 + "'",
    "many keys": "vllm serve m --speculative-config '" + "{" + ",".join(f'"{n}":1' for n in range(5000)) + "}'",
    "a long number": "vllm serve m --max-model-len " + "9" * 60_000,
    "a long flag": "vllm serve m --" + "x" * 60_000,
    "unknown flags": "vllm serve m " + "--nothing-of-the-kind " * 900,
    "launchers": "mpirun " * 900 + "vllm serve m",
    "containers": "docker run " * 450 + "vllm/vllm-openai m",
    "interpreters": "python " * 900 + "-m vllm serve m",
}


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_a_long_command_takes_no_longer_than_a_moment(name: str) -> None:
    """A second is hundreds of times what it takes; what grows with the square would take minutes."""
    assert quickly(lambda: heard(HOSTILE[name][:LONG]))


@given(VALUES)
@example("9" * 5000)
def test_no_value_of_a_log_raises(value: str) -> None:
    engine = catalog().engine("vllm")
    assert not isinstance(engine, PlainEngine)
    given_values = {"max_model_len": value, "speculative_config": value, "enforce_eager": value, "": value}

    assert understand(engine, given_values).wrong
