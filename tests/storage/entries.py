"""Small entries for the storage tests, and the few words they need to write them."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Engine, Row, select

from service.domain.catalog import CatalogKind
from service.storage.catalog import Change, apply_changes
from service.storage.database import writing
from service.storage.tables import CATALOG_REVISION

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


def store(engine: Engine, *changes: Change, origin: str = "files") -> int | None:
    """Write changes as one revision of their own transaction."""
    with writing(engine) as connection:
        return apply_changes(connection, changes, "tests", origin, "a change")


def revision(connection: Connection, number: int) -> Row[Any]:
    """The catalog revision of that number."""
    return connection.execute(select(CATALOG_REVISION).where(CATALOG_REVISION.c.id == number)).one()
