"""The SDK of kvquote: asks a service how many sequences fit a GPU, what takes the memory, and what a step reads.

    from kvquote_client import Client

    with Client("http://127.0.0.1:8000") as kvquote:
        answer = kvquote.fit(model="llama-2-7b", gpu="a100-sxm-80gb", context_tokens=4096)

The classes of answers are imported when the first one is made: a program that only wants `Client` starts sooner.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from kvquote_client.client import Client
from kvquote_client.errors import (
    BadAnswer,
    Conflict,
    InvalidInput,
    KvquoteError,
    NotAllowed,
    NotFound,
    Refused,
    Unavailable,
    Unreachable,
)
from kvquote_client.transport import Reply, Transport

if TYPE_CHECKING:
    from kvquote_client.answers import FitAnswer
    from kvquote_client.catalog_answers import (
        DtypeEntry,
        DtypeRow,
        EngineEntry,
        EngineRow,
        EntryRevision,
        GpuEntry,
        GpuRow,
        InspectAnswer,
        InstanceEntry,
        InstanceRow,
        ModelEntry,
        ModelRow,
    )
    from kvquote_client.learning_answers import AccuracyRow, CalibrationRow
    from kvquote_client.log_answers import LogAnswer
    from kvquote_client.measurement_answers import (
        MeasurementRow,
        ProbeRow,
        ProblemKind,
        Readiness,
        RowResult,
        UploadResult,
    )
    from kvquote_client.pages import Page, Pages
    from kvquote_client.question import Question, TrafficQuestion
    from kvquote_client.traffic_answers import TrafficAnswer

__version__ = "0.1.0"

__all__ = [
    "AccuracyRow",
    "BadAnswer",
    "CalibrationRow",
    "Client",
    "Conflict",
    "DtypeEntry",
    "DtypeRow",
    "EngineEntry",
    "EngineRow",
    "EntryRevision",
    "FitAnswer",
    "GpuEntry",
    "GpuRow",
    "InspectAnswer",
    "InstanceEntry",
    "InstanceRow",
    "InvalidInput",
    "KvquoteError",
    "LogAnswer",
    "MeasurementRow",
    "ModelEntry",
    "ModelRow",
    "NotAllowed",
    "NotFound",
    "Page",
    "Pages",
    "ProbeRow",
    "ProblemKind",
    "Question",
    "Readiness",
    "Refused",
    "Reply",
    "RowResult",
    "TrafficAnswer",
    "TrafficQuestion",
    "Transport",
    "Unavailable",
    "Unreachable",
    "UploadResult",
]

_LATER = (
    *("answers", "traffic_answers", "log_answers"),
    *("catalog_answers", "measurement_answers", "learning_answers"),
    *("pages", "question"),
)


def __getattr__(name: str) -> object:
    if name in __all__:
        for module in _LATER:
            found = getattr(import_module(f"{__name__}.{module}"), name, None)
            if found is not None:
                globals()[name] = found
                return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
