"""Options that no published model in the data switches on, or leaves out, count as the model code counts them."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from service.domain.configs import read_config
from tests.domain.configs.published import named

DATA = Path(__file__).parents[2] / "data" / "config_options.yaml"
OPTIONS: list[dict[str, Any]] = yaml.safe_load(DATA.read_text(encoding="utf-8"))


@pytest.mark.parametrize("option", OPTIONS, ids=[f"{n}-{o['model']}" for n, o in enumerate(OPTIONS)])
def test_an_option_counts_as_in_the_model_code(option: dict[str, Any]) -> None:
    config, part = named(option["model"]), option.get("part")
    config = {name: value for name, value in config.items() if name not in option.get("without", ())}
    changed = {**config, part: {**config[part], **option["change"]}} if part else {**config, **option["change"]}

    assert read_config(changed).parameters == option["parameters"]
