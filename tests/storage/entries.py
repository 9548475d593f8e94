"""Small entries for the storage tests, and the few words they need to write them."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy.orm import Session, sessionmaker

from service.domain.catalog import CatalogKind
from service.storage.catalog import Change, apply_changes
from service.storage.database import write_session

GPU, MODEL = CatalogKind.GPU, CatalogKind.MODEL

LLAMA_CONFIG: Mapping[str, Any] = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "vocab_size": 1000,
    "max_position_embeddings": 512,
}


def gpu_facts(gpu_id: str = "a100", advertised_bytes: int = 80_000_000_000, **more: object) -> dict[str, Any]:
    return {
        "id": gpu_id,
        "name": gpu_id.upper(),
        "vendor": "nvidia",
        "architecture": "ampere",
        "memory": {"type": "hbm2e", "advertised_bytes": advertised_bytes},
        "peak_flops_per_second": {"bf16": 312_000_000_000_000},
        **more,
    }


def model_facts(model_id: str = "tiny", **more: object) -> dict[str, Any]:
    return {
        "id": model_id,
        "name": model_id,
        "config": dict(LLAMA_CONFIG),
        "checkpoint": {"dtype": "bf16"},
        **more,
    }


def gpu_change(gpu_id: str = "a100", **facts: Any) -> Change:  # noqa: ANN401  # facts are documents
    return Change(GPU, gpu_id, gpu_facts(gpu_id, **facts))


def model_change(model_id: str = "tiny", **facts: Any) -> Change:  # noqa: ANN401
    return Change(MODEL, model_id, model_facts(model_id, **facts))


def store(sessions: sessionmaker[Session], *changes: Change, origin: str = "files") -> int | None:
    """Write changes as one revision of their own transaction."""
    with write_session(sessions) as session:
        return apply_changes(session, changes, "tests", origin, "a change")
