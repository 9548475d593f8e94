"""Every figure of the two lessons, exactly."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.domain.conftest import Ask

LESSONS = yaml.safe_load((Path(__file__).parents[1] / "data" / "lessons.yaml").read_text())


def at(answer: Any, path: str) -> Any:  # noqa: ANN401  # whatever stands at the path
    for key in path.split("."):
        answer = answer[key]
    return answer


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson["id"])
def test_a_lesson_comes_out_as_printed(lesson: dict[str, Any], ask_fit: Ask, ask_traffic: Ask) -> None:
    answer = {"fit": ask_fit, "traffic": ask_traffic}[lesson["resource"]](**lesson["question"])
    for path, right in lesson["figures"].items():
        assert at(answer, path) == pytest.approx(right, rel=lesson["tolerance"], abs=0)


@pytest.mark.parametrize("memory_bytes", [80_000_000_000, 85_899_345_920])
def test_the_answer_says_which_memory_and_which_count_it_used(ask_fit: Ask, memory_bytes: int) -> None:
    said = " ".join(ask_fit(model="llama-2-7b", parameters=7_000_000_000, memory_bytes=memory_bytes)["assumptions"])
    assert f"{memory_bytes:,}" in said
    assert "7,000,000,000 parameters as asked" in said
    assert "6,738,415,616" in said
