"""The registry of families, which imports a reader only when a config asks for it."""

import pkgutil
import subprocess
import sys
from importlib import import_module

import pytest

from service.domain import configs


def stated() -> dict[str, tuple[str, ...]]:
    """What each family module says of itself."""
    modules = {m.name: import_module(f"{configs.__name__}.{m.name}") for m in pkgutil.iter_modules(configs.__path__)}
    return {name: module.MODEL_TYPES for name, module in modules.items() if hasattr(module, "MODEL_TYPES")}


def test_the_registry_repeats_what_each_family_answers_to() -> None:
    assert dict(configs._FAMILIES) == stated()


def test_no_model_type_has_two_readers() -> None:
    words = [word for types in configs._FAMILIES.values() for word in types]

    assert sorted(words) == sorted(set(words))


def test_a_family_is_imported_when_its_first_config_is_read() -> None:
    script = "import sys, service.domain.configs; print(sum('configs.qwen' in name for name in sys.modules))"
    printed = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout

    assert printed.strip() == "0"


def test_every_family_is_imported_before_a_server_forks(monkeypatch: pytest.MonkeyPatch) -> None:
    imported: list[str] = []
    monkeypatch.setattr(configs, "import_module", imported.append)

    configs.import_readers()

    assert sorted(imported) == sorted(f"{configs.__name__}.{name}" for name in stated())
