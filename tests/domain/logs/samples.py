"""The logs of tests/data/logs with what each says; sizes are written as the engine prints them."""

from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from service.storage.catalog_yaml import read_yaml

FOLDER = Path(__file__).parents[2] / "data" / "logs"
UNITS = {"MiB": 1 << 20, "GiB": 1 << 30}


@dataclass(frozen=True)
class Sample:
    """A log and what it says. `ranks` may list some of the processes alone."""

    name: str
    text: str
    engine: str
    version: str | None
    said: dict[str, Any]
    ranks: dict[str, dict[str, Any]] = field(default_factory=dict)
    left_out: frozenset[str] = frozenset()
    refusal: dict[str, Any] | None = None
    starts: int = 1

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines(keepends=True)


def sized(value: Any) -> Any:  # noqa: ANN401
    """Bytes of `14.99 GiB`, or of several added up; anything else as it is."""
    if " + " in str(value):
        return sum(sized(each) for each in value.split(" + "))
    number, _, unit = str(value).partition(" ")
    if unit not in UNITS:
        return value
    return int((Decimal(number) * UNITS[unit]).to_integral_value())


def _sizes(values: dict[str, Any]) -> dict[str, Any]:
    return {name: sized(value) for name, value in values.items()}


def _sample(name: str, facts: dict[str, Any]) -> Sample:
    return Sample(
        name=name,
        # As bytes: some of the lines end as Windows ends them.
        text=(FOLDER / f"{name}.log").read_bytes().decode(),
        engine=facts["engine"],
        version=None if facts["version"] is None else str(facts["version"]),
        said=_sizes(facts["said"]),
        ranks={worker: _sizes(said) for worker, said in facts.get("ranks", {}).items()},
        left_out=frozenset(facts.get("left_out", ())),
        refusal=_sizes(facts["refusal"]) if "refusal" in facts else None,
        starts=facts.get("starts", 1),
    )


SAMPLES = [_sample(name, facts) for name, facts in sorted(read_yaml(FOLDER / "expected.yaml").items())]
