"""Measurements to judge, and what they are judged with."""

from datetime import UTC, datetime
from typing import Any

from service.domain.errors import UnknownGpu, UnknownModel
from service.domain.gpu import Gpu
from service.domain.measurement import Judgement, Lookups, Verdict, judge
from service.domain.model import Model
from service.domain.naming import NamedModel
from tests.domain.conftest import Shelf

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
H100, GEFORCE = "h100-sxm-80gb", "rtx-4090"
LLAMA = {"model": "llama-2-7b"}
TOTAL = 85_029_615_043


class Catalog:
    """The catalog's files, of which the tests name some that are not there."""

    def __init__(self, shelf: Shelf) -> None:
        self.revision, self.calibration = shelf.revision, shelf.calibration
        self.format, self.engine, self.sized_gpus = shelf.format, shelf.engine, shelf.sized_gpus
        self._shelf = shelf

    def gpu(self, name: str, pointer: str = "/gpu") -> Gpu:
        if "9090" in name:
            raise UnknownGpu.at(pointer, f"The catalog has no GPU named {name!r}.")
        return self._shelf.gpu(name)

    def model(self, name: str) -> Model:
        if name.startswith("nobody"):
            raise UnknownModel.at("/model", f"The catalog has no model named {name!r}.")
        return self._shelf.model(name)

    def named_model(self, name: str, pointer: str = "/model") -> NamedModel:
        return self._shelf.named_model(name, pointer)


CATALOG = Catalog(Shelf())


def row(kind: str, values: dict[str, Any], setup: dict[str, Any] | None = None, **more: object) -> dict[str, Any]:
    found = {"kind": kind, "measured_at": "2026-11-29T10:00:00Z", "values": values, "gpu": {"name": H100}}
    return {**found, "setup": setup or {}, **more}


def judged(measured: dict[str, Any]) -> Judgement:
    return judge(measured, NOW, Lookups(CATALOG))


def verdict(kind: str, values: dict[str, Any], setup: dict[str, Any] | None = None, **more: object) -> Verdict:
    return judged(row(kind, values, setup, **more)).verdict


def step(seconds: float, **setup: object) -> Verdict:
    return verdict("decode_step", {"seconds": seconds}, setup)
