"""Questions as tests send them, and what a problem must look like wherever it comes from."""

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from werkzeug.test import TestResponse

QUESTION: dict[str, Any] = {"model": "llama-2-7b", "gpu": "a100-sxm-80gb", "context_tokens": 4096}
MEMBERS = ["type", "title", "status", "detail", "request_id", "errors"]


def strict(body: bytes) -> Any:  # noqa: ANN401
    """JSON as RFC 8259 has it: Python's own reader takes NaN and Infinity too."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    return json.loads(body, parse_constant=refuse)


def problem(response: "TestResponse", status: int, name: str) -> dict[str, Any]:
    """Check all that every problem has in common; return it."""
    assert response.status_code == status, response.text
    assert response.content_type == "application/problem+json"
    assert response.headers["Cache-Control"] == "no-store"
    found: dict[str, Any] = strict(response.data)
    assert list(found) == MEMBERS
    assert found["type"] == f"/problems/{name}"
    assert found["status"] == status
    assert found["request_id"] == response.headers["X-Request-ID"]
    assert found["title"]
    assert found["detail"]
    assert all(list(fault) == ["pointer", "detail", "nearest"] for fault in found["errors"])
    assert len(response.data) <= 16 * 1024
    return found


def pointers(found: dict[str, Any]) -> list[str]:
    return [fault["pointer"] for fault in found["errors"]]
