"""The SDK of kvquote: asks a service how many sequences fit a GPU, what takes the memory, and what a step reads."""

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

__version__ = "0.1.0"

__all__ = [
    "BadAnswer",
    "Conflict",
    "InvalidInput",
    "KvquoteError",
    "NotAllowed",
    "NotFound",
    "Refused",
    "Reply",
    "Transport",
    "Unavailable",
    "Unreachable",
]
