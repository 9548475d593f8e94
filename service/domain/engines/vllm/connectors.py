"""What moves caches between servers and to the host: whether layers of different kinds keep groups of their own then.

None that is answered takes memory of the device before the cache is sized; those that do, or of which nobody knows, are
refused by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from service.domain.engines.dated import Dated, dated, made, newest
from service.domain.engines.versions import parse
from service.domain.errors import nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from service.domain.engines.versions import Release

_MOST_CHILDREN: Final = 16
_SHOWN: Final = 40


@dataclass(frozen=True, slots=True)
class ConnectorRule:
    """Whether groups are kept `never`, where they are `asked` for, or where the connector is `able` to.

    `events` of caches end groups too. The connector of a cache on the host is named `late`, when that has been decided,
    and is that of `backend` where none is given.
    """

    hybrid: str
    events: bool = False
    late: bool = False
    backend: str | None = None


@dataclass(frozen=True, slots=True)
class Connector:
    """A connector from its first release on; `able` with groups, `unsure` by what is installed."""

    name: str
    first: str
    gone: str | None = None
    able: str | None = None
    unsure: str | None = None
    children: bool = False


class Verdict(NamedTuple):
    """`hybrid` false where groups end, None where they are kept; else why it is refused, or `wrong` and cannot be."""

    hybrid: bool | None = None
    refused: str | None = None
    wrong: str | None = None
    close: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Connectors:
    """Every connector that the catalog knows, and by release what they change."""

    rules: Dated[ConnectorRule]
    known: Mapping[str, Connector]
    refused: Mapping[str, str]
    backends: Mapping[str, Dated[str]]

    def rule(self, release: Release) -> ConnectorRule:
        """What holds for a release."""
        return newest(self.rules, release)

    def of_backend(self, name: str, release: Release) -> str | None:
        """The connector of a cache on the host; None where no backend has that name."""
        rows = self.backends.get(name)
        return newest(rows, release) if rows else None

    def beside(
        self, name: str, settings: Mapping[str, Any], release: Release, *, asked: bool | None, late: bool = False
    ) -> Verdict:
        """What a connector does to a server that asks for groups or against them (None leaves that to the engine)."""
        parts = list(islice(self._parts(name, settings), _MOST_CHILDREN + 2))
        if len(parts) > _MOST_CHILDREN + 1:
            return Verdict(refused=f"More than {_MOST_CHILDREN} connectors within one are not read")
        for each, _ in parts:
            fault = self._unknown(each, release)
            if fault:
                return fault
        if any(own.get("use_layerwise") for _, own in parts):
            return Verdict(refused="Layers that are moved one by one (use_layerwise) change which graphs are captured")
        rows = [self.known[each] for each, _ in parts]
        return self._groups(rows, release, asked=asked, late=late)

    def _parts(self, name: str, settings: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """A connector and those that it is made of, one within another, each with its own settings."""
        yield name, settings
        row = self.known.get(name)
        for child in _listed(settings) if row and row.children else ():
            own = child.get("kv_connector_extra_config") if isinstance(child, dict) else None
            part = child.get("kv_connector") if isinstance(child, dict) else child
            yield from self._parts(str(part), own if isinstance(own, dict) else {})

    def _unknown(self, name: str, release: Release) -> Verdict | None:
        if name in self.refused:
            return Verdict(refused=f"{name} is not modelled: {self.refused[name]}")
        row = self.known.get(name)
        if row is None:
            names = (*self.known, *self.refused)
            return Verdict(refused=f"No connector is known as {name[:_SHOWN]!r}", close=nearest(name, names))
        if release < parse(row.first):
            return Verdict(wrong=f"{name} is none of its connectors yet; {row.first} is the first that has it")
        if row.gone and release >= parse(row.gone):
            return Verdict(wrong=f"{name} is no longer one of its connectors; {row.gone} is the first without it")
        return None

    def _groups(self, rows: list[Connector], release: Release, *, asked: bool | None, late: bool) -> Verdict:
        rule, names = self.rule(release), ", ".join(row.name for row in rows)
        able = all(_reached(row.able, release) for row in rows)
        unsure = any(_reached(row.unsure, release) for row in rows)
        if asked is False:
            return Verdict(hybrid=False)
        if late and rule.late:
            late_wrong = f"it does not start with {names} of a cache on the host unless the hybrid cache is off: "
            return Verdict() if able else Verdict(wrong=late_wrong + "add --disable-hybrid-kv-cache-manager")
        if rule.hybrid == "never":
            return Verdict(wrong=f"it turns the hybrid cache off beside {names}") if asked else Verdict(hybrid=False)
        if rule.hybrid == "able" and unsure:
            why = f"Whether {names} keeps windows depends on what is installed: give hybrid_cache false"
            return Verdict(refused=why)
        if asked and not able:
            return Verdict(wrong=f"it does not start with {names} and the hybrid cache manager")
        return Verdict() if asked or (able and rule.hybrid == "able") else Verdict(hybrid=False)


def _reached(since: str | None, release: Release) -> bool:
    return since is not None and release >= parse(since)


def _listed(settings: Mapping[str, Any]) -> list[Any]:
    """The connectors that one is made of, as they are given; none where those are no list."""
    found = settings.get("connectors")
    return found if isinstance(found, list) else []


def connectors(facts: Mapping[str, Any]) -> Connectors:
    """Read the catalog's rows; raises what its figures raise where one is missing."""
    return Connectors(
        rules=dated(facts["rules"], lambda row: made(ConnectorRule, row)),
        known={row["name"]: Connector(**row) for row in facts["known"]},
        refused=dict(facts["refused"]),
        backends={name: dated(rows, lambda row: str(row["connector"])) for name, rows in facts["backends"].items()},
    )
