"""A catalog of a few entries in memory, read from the same files that the service loads."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from service.domain import engines, gpu, model, precision
from service.domain.calibration import NOTHING_LEARNED
from service.domain.catalog import CatalogKind, Entry
from service.domain.naming import NamedModel
from service.domain.question import resolve
from service.domain.quote import fit
from service.domain.traffic_quote import traffic
from service.storage.catalog_yaml import read_yaml

if TYPE_CHECKING:
    from service.domain.engines import Engine
    from service.domain.gpu import Gpu

CATALOG = Path(__file__).parents[2] / "catalog"
Ask = Callable[..., dict[str, Any]]


class Shelf:
    """Looks an entry up by its id alone and builds it once."""

    revision = 1
    calibration = NOTHING_LEARNED

    @cache  # noqa: B019  # one shelf lives as long as the tests
    def model(self, name: str) -> model.Model:
        return model.from_facts(entry(CatalogKind.MODEL, name))

    def named_model(self, name: str, pointer: str = "/model") -> NamedModel:  # noqa: ARG002  # as the protocol
        return NamedModel(self.model(name))

    @cache  # noqa: B019
    def gpu(self, name: str, pointer: str = "/gpu") -> gpu.Gpu:  # noqa: ARG002  # as the protocol
        return gpu.from_facts(entry(CatalogKind.GPU, name))

    def sized_gpus(self, name: str) -> "tuple[Gpu, ...]":  # noqa: ARG002  # as the protocol
        return ()

    @cache  # noqa: B019
    def format(self, name: str, pointer: str = "") -> precision.NumberFormat:  # noqa: ARG002  # as the protocol
        return precision.from_facts(entry(CatalogKind.DTYPE, name))

    @cache  # noqa: B019
    def engine(self, name: str) -> "Engine":
        return engines.from_facts(entry(CatalogKind.ENGINE, name))


def entry(kind: CatalogKind, name: str) -> Entry:
    facts = read_yaml(CATALOG / f"{kind}s" / f"{name}.yaml")
    return Entry(kind, name, facts, 1)


@pytest.fixture(scope="session")
def shelf() -> Shelf:
    return Shelf()


@pytest.fixture(scope="session")
def ask_fit(shelf: Shelf) -> Ask:
    return lambda **asked: fit(resolve(asked, shelf), shelf)


@pytest.fixture(scope="session")
def ask_traffic(shelf: Shelf) -> Ask:
    return lambda **asked: traffic(resolve(asked, shelf), shelf)
