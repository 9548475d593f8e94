"""Releases: how they are written, how they follow each other, and which of them a rule speaks for (PEP 440)."""

from __future__ import annotations

import bisect
import re
from typing import TYPE_CHECKING, NamedTuple

from service.domain.errors import Fault, ValidationError, nearest

if TYPE_CHECKING:
    from collections.abc import Sequence

_POINTER = "/engine_version"
_WRITTEN = re.compile(
    r"v?(?P<numbers>\d{1,4}(?:\.\d{1,4}){0,3})(?:[._-]?(?P<stage>a|b|rc)(?P<count>\d{1,6}))?"
    r"(?:[._-]?post(?P<post>\d{1,6}))?(?:[._-]?dev(?P<dev>\d{1,6}))?(?:\+[a-z0-9.]{1,40})?",
    re.ASCII,
)
_STAGES = {"a": 0, "b": 1, "rc": 2}
_DEV_ALONE, _FINAL = -1, 3
_NO_POST, _NO_DEV = -1, 1 << 40
_PARTS = 4


class Release(NamedTuple):
    """A release as a key that sorts as releases do: dev builds before candidates, candidates before the release."""

    numbers: tuple[int, ...]
    stage: tuple[int, int]
    post: int
    dev: int

    @property
    def final(self) -> bool:
        """Whether it is a published release and no build on the way to one."""
        return self.stage[0] == _FINAL and self.dev == _NO_DEV


def parse(text: str) -> Release:
    """A release from its name, `v` and local suffixes ignored; raises ValueError for anything else."""
    found = _WRITTEN.fullmatch(text.strip().casefold())
    if found is None:
        raise ValueError(f"{text[:40]!r} is not written as a release")
    numbers = tuple(int(n) for n in found["numbers"].split("."))
    post, dev = found["post"], found["dev"]
    stage = (_STAGES[found["stage"]], int(found["count"])) if found["stage"] else (_FINAL, 0)
    if dev is not None and stage[0] == _FINAL and post is None:
        stage = (_DEV_ALONE, 0)
    padded = numbers + (0,) * (_PARTS - len(numbers))
    return Release(padded, stage, _NO_POST if post is None else int(post), _NO_DEV if dev is None else int(dev))


class Timeline:
    """The releases that were published, and those among them whose rules were checked."""

    def __init__(self, published: Sequence[str], checked: Sequence[str], engine: str) -> None:
        """Both as written; raises ValueError where a name is no release or a checked one was never published."""
        self._engine = engine
        self._published = {parse(name): name for name in published}
        self._order = sorted(self._published)
        self._checked = sorted((parse(name), name) for name in checked)
        strangers = [name for release, name in self._checked if release not in self._published]
        if strangers:
            raise ValueError(f"{', '.join(strangers)} were checked but never published")

    @property
    def newest(self) -> str:
        """The name of the newest published release."""
        return self._published[self._order[-1]]

    def find(self, text: str) -> Release:
        """The release of that name; raises ValidationError for one that never was.

        Builds on the way to a release are taken where they fall. A name of fewer parts than a release has means the
        first of its series. Releases past the newest known are taken as given.
        """
        try:
            release = parse(text)
        except ValueError as error:
            raise ValidationError(Fault(_POINTER, f"{error}; the newest known is {self.newest}.")) from error
        if release < self._order[0]:
            raise ValidationError(Fault(_POINTER, f"There is no release before {self._published[self._order[0]]}."))
        if release in self._published or not release.final or release > self._order[-1]:
            return release
        detail = f"{self._engine} was never released as {text[:40]}; the newest known is {self.newest}."
        raise ValidationError(Fault(_POINTER, detail, nearest(text, self._published.values())))

    def note(self, text: str, release: Release) -> str | None:
        """What to say of a release whose own rules were not checked; None of one whose rules were."""
        at = bisect.bisect_right(self._checked, (release, "\U0010ffff"))
        if at and self._checked[at - 1][0] == release:
            return None
        named = f"{self._engine} {text}"
        if release > self._order[-1]:
            return f"{named} is newer than {self.newest}, the newest known: quoted by the rules of {self.newest}"
        if not at:
            return f"{named} is older than the oldest release whose rules were checked, {self._checked[0][1]}"
        older = self._checked[at - 1][1]
        if at == len(self._checked):
            return f"the rules of {named} were not checked: quoted by those of {older}"
        return f"{named} lies between {older} and {self._checked[at][1]}: quoted by the rules of the older"
