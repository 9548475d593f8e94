"""The text of a problem document (RFC 9457), for whoever sends it: the application, or the server below it."""

import json
from collections.abc import Iterable, Sequence

from service.api import limits
from service.api.problem_types import ProblemType
from service.domain.errors import Fault

PROBLEM_TYPE = "application/problem+json"


def document(
    kind: ProblemType, detail: str, request_id: str | None, status: int = 0, faults: Sequence[Fault] = ()
) -> str:
    """One problem; `status` replaces the kind's own where one kind stands for several."""
    problem = {
        "type": kind.uri,
        "title": kind.title,
        "status": status or kind.status,
        "detail": detail,
        "request_id": request_id,
        "errors": list(_listed(faults)),
    }
    return json.dumps(problem) + "\n"


def _listed(faults: Sequence[Fault]) -> Iterable[dict[str, object]]:
    """The faults that go into the answer: a refusal must not grow with what it refuses."""
    room = limits.FAULTS_BYTES
    for fault in faults[: limits.FAULTS_LISTED]:
        entry: dict[str, object] = {
            "pointer": fault.pointer,
            "detail": fault.detail[: limits.DETAIL_CHARACTERS],
            "nearest": list(fault.nearest),
        }
        room -= len(json.dumps(entry))
        if room < 0:
            return
        yield entry
