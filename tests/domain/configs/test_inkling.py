"""Inkling: what differs between its files and the library's own, and the towers that it folds patches with."""

from copy import deepcopy
from typing import Any

import pytest

from service.domain.architecture import ModuleKind
from service.domain.configs import read_config
from service.domain.errors import ConfigError
from tests.domain.configs.published import named

LARGE, SMALL, TEXT = "thinkingmachines/Inkling", "thinkingmachines/Inkling-Small", "transformers/inkling_text"


def changed(model: str, part: str, **values: object) -> dict[str, Any]:
    config = deepcopy(named(model))
    config[part].update(values)
    return config


def counted(config: dict[str, Any], kind: ModuleKind) -> int:
    return sum(module.parameters for module in read_config(config).modules if module.kind is kind)


def test_the_towers_are_those_of_the_files() -> None:
    """Projections of 75 to 128, 512 to 320, 5,120 to 4,800 and 9,600 to the text, whose last has no norm of its own."""
    folded = 75 * 128 + 128 + 512 * 320 + 320 + 5120 * 4800 + 4800 + 9600 * 4096 + 4096

    assert counted(named(SMALL), ModuleKind.VISION) == folded
    assert counted(named(SMALL), ModuleKind.AUDIO) == 80 * 16 * 4096 + 4096


@pytest.mark.parametrize("part", ["vision_config", "audio_config"])
def test_a_tower_of_which_nothing_is_said_is_not_there(part: str) -> None:
    kind = {"vision_config": ModuleKind.VISION, "audio_config": ModuleKind.AUDIO}[part]

    assert counted({**named(SMALL), part: {}}, kind) == 0


def test_more_steps_than_a_patch_folds_are_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        read_config(changed(SMALL, "vision_config", n_layers=6))

    assert [fault.pointer for fault in caught.value.faults] == ["/config/vision_config/n_layers"]


def test_widths_by_the_names_of_the_library_are_those_of_the_files() -> None:
    renamed = changed(LARGE, "text_config", intermediate_size=24576, moe_intermediate_size=3072)
    del renamed["text_config"]["dense_intermediate_size"]

    assert read_config(renamed).parameters == read_config(named(LARGE)).parameters


def test_prediction_layers_told_beside_the_text_are_its_own() -> None:
    told = named(LARGE)["mtp_config"]
    inside = changed(LARGE, "text_config", num_mtp_layers=8, mtp_local_layer_ids=told["local_layer_ids"])
    del inside["mtp_config"]

    kind = ModuleKind.PREDICTION
    assert counted(inside, kind) == counted(named(LARGE), kind) == 5_260_445_704


@pytest.mark.parametrize("said", [{"local_layer_ids": None}, {}])
def test_every_sixth_layer_sees_all_where_nothing_is_said(said: dict[str, Any]) -> None:
    config = {**named(TEXT), **said}
    full = [group.layers for group in read_config(config).caches if group.spec.tokens_held(4096) == 4096]

    assert full == [(5, 11)]
