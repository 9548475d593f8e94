"""A small catalog folder that tests write and break."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from tests.storage.entries import gpu_facts, model_facts

_GPU_SCHEMA = {
    "type": "object",
    "required": ["id", "memory"],
    "properties": {
        "checked": {"$ref": "shared.json#/$defs/date"},
        "memory": {"properties": {"advertised_bytes": {"type": "integer", "minimum": 1}}},
        "size": {"anyOf": [{"type": "null"}, {"type": "object", "properties": {"a": {"type": "integer"}}}]},
    },
}


class CatalogFolder:
    """Writes entries as YAML, of which JSON is a part."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.schema("gpu", _GPU_SCHEMA)
        self.schema("model", {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object"})
        self.schema("shared", {"$defs": {"date": {"type": "string", "format": "date"}}})

    def schema(self, kind: str, schema: Mapping[str, Any]) -> None:
        self.text(f"schema/{kind}.json", json.dumps(schema))

    def gpu(self, gpu_id: str, **facts: Any) -> Self:  # noqa: ANN401  # facts are documents
        return self.text(f"gpus/{gpu_id}.yaml", json.dumps(gpu_facts(gpu_id, **facts)))

    def model(self, model_id: str, **facts: Any) -> Self:  # noqa: ANN401
        return self.text(f"models/{model_id}.yaml", json.dumps(model_facts(model_id, **facts)))

    def text(self, name: str, text: str) -> Self:
        (self.path / name).parent.mkdir(parents=True, exist_ok=True)
        (self.path / name).write_text(text, "utf-8")
        return self

    def remove(self, name: str) -> Self:
        (self.path / name).unlink()
        return self
