"""What of models' shapes is remembered: made once, shared where it is equal, and bounded whatever is asked."""

import gc
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from weakref import ref

import pytest

from service.domain import memo
from service.domain.loads import rank_loads
from service.domain.memo import remembered
from service.domain.model import Model
from service.domain.parallel import Layout
from service.domain.precision import CacheFormat, WeightFormat
from service.domain.stored import weights_for
from service.domain.weights import stage_shapes
from tests.domain.conftest import Shelf

OPT, LLAMA = "opt-125m", "llama-3.1-8b-instruct"
Fresh = Callable[[str], Model]


@pytest.fixture
def fresh(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> Fresh:
    """Models of which nothing is remembered, in a process that has room for eight entries."""
    monkeypatch.setattr(memo, "_made", deque())
    monkeypatch.setattr(memo, "KEPT", 8)
    return lambda name: replace(shelf.model(name), memo={})


def formats(shelf: Shelf, name: str = "bf16") -> tuple[WeightFormat, CacheFormat]:
    number = shelf.format(name)
    assert number.weight
    assert number.cache
    return number.weight, number.cache


def test_what_is_remembered_is_made_once(fresh: Fresh) -> None:
    model, made = fresh(OPT), iter(range(2))
    assert [remembered(model, "once", lambda: next(made)) for _ in range(2)] == [0, 0]


def test_all_models_together_keep_a_bounded_number_and_the_newest(fresh: Fresh) -> None:
    models = [fresh(OPT) for _ in range(5)]
    for number in range(100):
        for model in models:
            remembered(model, number, lambda: "kept")
        assert sum(len(model.memo) for model in models) <= 8
    assert [list(model.memo) for model in models] == [[99], [99], [98, 99], [98, 99], [98, 99]]


def test_ever_new_layouts_and_formats_take_a_bounded_number_of_places(shelf: Shelf, fresh: Fresh) -> None:
    weights, cache = formats(shelf)
    models = [fresh(LLAMA), fresh(OPT)]
    for number in range(60):
        for model in models:
            asked = replace(weights, name=str(number)), replace(cache, name=str(number))
            rank_loads(model, *asked, Layout(pipeline=1 + number % 12))
            rank_loads(model, *asked, Layout())
    assert sum(len(model.memo) for model in models) == 8
    assert max(len(placed) for model in models for placed in model.memo.values()) <= 32
    assert stage_shapes.cache_info().currsize <= 32


def test_what_was_dropped_comes_to_the_same_again(shelf: Shelf, fresh: Fresh) -> None:
    asked, model = formats(shelf), fresh(LLAMA)
    before = rank_loads(model, *asked, Layout(2, 2))
    for number in range(8):
        remembered(model, number, lambda: "kept")
    assert (2, 2, False) not in model.memo
    assert rank_loads(model, *asked, Layout(2, 2)) == before


def test_a_model_that_was_replaced_is_not_kept_alive(fresh: Fresh) -> None:
    gone, here = fresh(OPT), fresh(OPT)
    remembered(gone, "once", lambda: "kept")
    seen = ref(gone)
    del gone
    gc.collect()
    assert seen() is None
    for number in range(20):
        remembered(here, number, lambda: "kept")
    assert len(here.memo) == 8


def test_models_of_configs_in_questions_take_no_place_of_others(fresh: Fresh) -> None:
    known, asked = fresh(OPT), replace(fresh(OPT), id=None, memo={})
    remembered(known, "once", lambda: "kept")
    for number in range(20):
        remembered(asked, number, lambda: "kept")
    assert "once" in known.memo
    assert len(asked.memo) == 8


def test_equal_stages_of_a_pipeline_are_one_object(shelf: Shelf, fresh: Fresh) -> None:
    loads = rank_loads(fresh(LLAMA), *formats(shelf), Layout(pipeline=4))
    assert loads[1].weights is loads[2].weights
    assert loads[0].terms is loads[3].terms


def test_formats_of_equal_widths_share_what_they_come_to(shelf: Shelf, fresh: Fresh) -> None:
    model = fresh(LLAMA)
    (brain,), (half,), (byte,) = (
        rank_loads(model, *formats(shelf, name), Layout()) for name in ("bf16", "fp16", "int8")
    )
    assert brain.weights is half.weights
    assert brain.terms is half.terms
    assert brain.weights != byte.weights
    assert brain.terms != byte.terms


def test_a_format_that_the_checkpoint_is_not_in_takes_no_place(shelf: Shelf, fresh: Fresh) -> None:
    model = fresh(LLAMA)
    made = [weights_for(shelf.format(name), model, shelf) for name in ("int8", "q4_k_m", "q4_k_m")]
    assert made[0] is shelf.format("int8").weight
    assert made[1] is made[2]
    assert len(model.memo) == 1
