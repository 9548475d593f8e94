"""What learning foretells of what it never saw: everything of one kind is left out, the rest taught, and then asked.

Refused are starts that no rung may speak for, confirmed those of rungs on which the catalog was right anyway; only
those that are moved are quoted otherwise than by the catalog alone.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from service.domain.calibration import Calibration, Quantity
from service.domain.learning import learn
from service.domain.robust import median, quantile
from tests.fleet import GIB, MODEL, fleet, modelled, probe_id, samples
from tests.learning.replay import Start, starts

FLEET_BYTES: Final = 1.5 * GIB
WRONG: Final = (-9.0 * GIB, 4.0 * GIB, 40.0 * GIB)
OUTDATED: Final = "0.14.0"
_MODELS: Final = (MODEL, "mixtral-8x7b-instruct-v0.1", "gemma-2-9b-it", "deepseek-v2-lite")
_TENSOR: Final = {"mixtral-8x7b-instruct-v0.1": 2}


class Foretold(NamedTuple):
    """One start that was left out, its errors as shares of the cache; `after` is None where every rung was refused.

    `inside` says whether it lies where the rung expects nine of ten, which is a `finest` one or a coarser.
    """

    before: float
    after: float | None
    moved: bool
    inside: bool = False
    finest: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """One line of the table: a fold over some logs, with what counts as a probe."""

    logs: str
    left_out: str
    probe: str
    foretold: Sequence[Foretold]

    @property
    def moved(self) -> list[Foretold]:
        """Those whose quote learning changed."""
        return [one for one in self.foretold if one.moved]

    def errors(self, share: float) -> tuple[float, float]:
        """That quantile of the errors of those whose quote changed: by the catalog alone, and calibrated."""
        return (
            quantile([one.before for one in self.moved], share),
            quantile([one.after or 0.0 for one in self.moved], share),
        )

    def inside(self, *, finest: bool) -> str:
        """How many lie where they are expected, of those that a finest or a coarser rung speaks for."""
        told = [one.inside for one in self.foretold if one.after is not None and one.finest == finest]
        return f"{sum(told)} of {len(told)}" if told else "–"

    def line(self) -> str:
        refused = sum(one.after is None for one in self.foretold)
        confirmed = len(self.foretold) - refused - len(self.moved)
        cells = [self.logs, self.left_out, self.probe, *map(str, (len(self.foretold), refused, confirmed))]
        cells.append(str(len(self.moved)))
        for share in (0.5, 0.9):
            before, after = self.errors(share) if self.moved else (None, None)
            cells.append("–" if before is None or after is None else f"{before:.2%} → {after:.2%}")
        cells += [self.inside(finest=True), self.inside(finest=False)]
        return f"| {' | '.join(cells)} |"


_COLUMNS: Final = (
    *("logs", "left out", "a probe is", "starts", "refused", "confirmed", "moved", "their median error", "90 %"),
    *("inside, finest", "inside, coarser"),
)
HEADER: Final = f"| {' | '.join(_COLUMNS)} |\n|{'---|' * len(_COLUMNS)}"


def left_out_by(every: Sequence[Start], key: Callable[[Start], object], asked: Sequence[Start] = ()) -> list[Foretold]:
    """Each start, or those asked for, foretold by all that differ from it in that."""
    found = []
    for left_out in sorted({key(start) for start in every}, key=str):
        calibration = Calibration(1, 1, learn([start.sample for start in every if key(start) != left_out]))
        found += [foretold(start, calibration) for start in asked or every if key(start) == left_out]
    return found


def foretold(start: Start, calibration: Calibration) -> Foretold:
    """One start beside what a calibration that never saw it says."""
    found = calibration.find(Quantity.RESERVE, start.sample.scope)
    before = abs(start.beyond_bytes) / start.pool_bytes
    if found is None:
        return Foretold(before, None, moved=False)
    return Foretold(
        before,
        abs(start.beyond_bytes - found.estimate) / start.pool_bytes,
        moved=found.estimate != 0,
        inside=found.low <= start.beyond_bytes <= found.high,
        finest=found.own,
    )


def public_logs(newest_known: str | None = None, probes: Sequence[str] = ("a source", "a log")) -> Iterator[Outcome]:
    """Folds over the public logs, by the catalog as it is or as it was before it knew the newer releases."""
    logs = "public logs" if newest_known is None else f"the same, catalog ends at {newest_known}"
    for probe in probes:
        every = starts(probe_of_each_log=probe == "a log", newest_known=newest_known)
        for left_out, key in _KEYS.items():
            yield Outcome(logs, left_out, probe, left_out_by(every, key))


_KEYS: Final[dict[str, Callable[[Start], object]]] = {
    "a GPU and release": lambda start: (start.sample.scope.gpu, start.sample.scope.version),
    "a source": lambda start: start.source,
    "a model": lambda start: start.model,
}


def simulated_fleet() -> Iterator[Outcome]:
    """Twenty nodes whose engine keeps 1.5 GiB more than is modelled, three of them wrong in different ways."""
    every = [start for model in _MODELS for start in _nodes(model)]
    right = [start for start in every if start.sample.probe not in {probe_id(n + 1) for n in range(len(WRONG))}]
    for left_out, key in (("a node", lambda start: start.sample.probe), ("a model", lambda start: start.model)):
        yield Outcome("a fleet of 20, 3 wrong", left_out, "a node", left_out_by(every, key, right))


def _nodes(model: str) -> Iterator[Start]:
    tensor = _TENSOR.get(model, 1)
    rows = list(fleet(FLEET_BYTES, wrong=WRONG, model=model, tensor=tensor))
    pool, _ = modelled(rows[0]["gpu"]["name"], rows[0]["software"]["engine_version"], model, 8192, tensor)
    for sample in samples(rows):
        yield Start(sample, sample.probe, model, pool)


def table() -> list[Outcome]:
    """Every fold."""
    return [*public_logs(), *public_logs(OUTDATED), *simulated_fleet()]


def is_proof(outcome: Outcome) -> bool:
    """Whether what was left out is foretold better than by the catalog alone, where it is foretold otherwise at all."""
    if not outcome.moved:
        return True
    return all(after < before for before, after in (outcome.errors(0.5), outcome.errors(0.9))) and (
        median([one.before - (one.after or 0.0) for one in outcome.moved]) > 0
    )
