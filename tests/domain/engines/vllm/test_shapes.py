"""What of a model's shapes the engine's memory follows from."""

import pytest

from service.domain.configs import read_config
from service.domain.engines.vllm.shapes import rotary_elements, tower, widths
from service.domain.parallel import Layout
from tests.domain.conftest import Shelf


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
    assert rotary_elements(shelf.model("llama-3.1-8b-instruct").architecture, 4) == 131072 * 128


def test_latent_attention_rotates_a_part_of_its_vector(shelf: Shelf) -> None:
    architecture = shelf.model("deepseek-v3").architecture
    assert rotary_elements(architecture, 4) == (architecture.context_tokens or 0) * 64


def test_scaled_positions_have_rows_of_their_own_and_windows_another_table(shelf: Shelf) -> None:
    # 8.58 GiB were logged where 8.01 are parameters: 8 x 131,072 rows for the full layers, 131,072 for the windows.
    assert rotary_elements(shelf.model("gemma-3-4b-it").architecture, 4) == (8 + 1) * 131072 * 256


def test_positions_in_pictures_run_further_and_only_a_part_of_a_key_may_turn(shelf: Shelf) -> None:
    assert rotary_elements(shelf.model("qwen2-vl-7b-instruct").architecture, 4) == 4 * 32768 * 128
    # 134 MB beside 64.56 GiB of text weights, of 64.69 GiB logged.
    assert rotary_elements(shelf.model("qwen3.5-35b-a3b").architecture, 4) == 4 * 262144 * 64


@pytest.mark.parametrize(
    "scaling, rows",
    [
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}, 131072),
        ({"type": "dynamic", "factor": 2}, 81920),
        ({"rope_type": "llama3", "factor": 8.0}, 40960),
        ({"rope_type": "linear", "factor": "8"}, 40960),
        ({"rope_type": "linear", "factor": -1}, 40960),
        ({"rope_type": "linear", "factor": 1e300}, 40960),
        ("no object", 40960),
        ({"rope_type": ["linear"], "factor": 8}, 40960),
        ({"type": {}, "factor": 8}, 40960),
    ],
)
def test_only_a_scaling_that_adds_positions_stretches_the_table(scaling: object, rows: int) -> None:
    config = {"model_type": "qwen3", "max_position_embeddings": 40960, "rope_scaling": scaling}
    assert rotary_elements(read_config(config), 4) == rows * 128
