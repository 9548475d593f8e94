"""What of a model's shapes is remembered."""

from service.domain.engines.vllm.shapes import remembered, rotary_elements, tower, widths
from service.domain.parallel import Layout
from tests.domain.conftest import Shelf


def test_what_is_remembered_is_made_once(shelf: Shelf) -> None:
    model, made = shelf.model("opt-125m"), iter(range(2))
    assert [remembered(model, "test-once", lambda: next(made)) for _ in range(2)] == [0, 0]


def test_what_is_remembered_is_bounded(shelf: Shelf) -> None:
    model = shelf.model("opt-125m")
    for number in range(1200):
        remembered(model, ("test-many", number), lambda: "kept")
    assert len(model.memo) <= 512


def test_an_expert_has_widths_of_its_own_and_a_rank_its_share(shelf: Shelf) -> None:
    architecture = shelf.model("mixtral-8x7b-instruct-v0.1").architecture
    whole, half = widths(architecture, Layout()), widths(architecture, Layout(tensor=2))
    assert (whole.experts_active, whole.experts_in, whole.experts_out, whole.expert_hidden) == (2, 28672, 14336, 4096)
    assert (half.experts_in, half.experts_out, half.expert_hidden) == (14336, 7168, 4096)


def test_experts_stand_whole_where_they_are_spread_by_number(shelf: Shelf) -> None:
    architecture = shelf.model("mixtral-8x7b-instruct-v0.1").architecture
    assert widths(architecture, Layout(tensor=2, expert=True)).experts_in == 28672


def test_a_model_without_pictures_has_no_tower(shelf: Shelf) -> None:
    assert tower(shelf.model("opt-125m").architecture) == (0, 0)


def test_a_tower_has_the_widths_of_its_matrices(shelf: Shelf) -> None:
    assert tower(shelf.model("gemma-3-27b-it").architecture) == (1152, 4304)


def test_layers_of_one_rotated_width_share_a_table(shelf: Shelf) -> None:
    assert rotary_elements(shelf.model("llama-3.1-8b-instruct").architecture) == 131072 * 128


def test_latent_attention_rotates_a_part_of_its_vector(shelf: Shelf) -> None:
    architecture = shelf.model("deepseek-v3").architecture
    assert rotary_elements(architecture) == (architecture.context_tokens or 0) * 64
