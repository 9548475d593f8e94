"""Answers made from the service's own description: as little as it promises, or an item in every list."""

from typing import Any

Schema = dict[str, Any]


class Description:
    """The OpenAPI document, and documents that fit it."""

    def __init__(self, document: Schema) -> None:
        self.paths: dict[str, dict[str, Schema]] = document["paths"]
        self._components: Schema = document["components"]

    def operations(self) -> set[tuple[str, str]]:
        return {(m.upper(), path) for path, methods in self.paths.items() for m in methods if m != "parameters"}

    def schema(self, name: str) -> Schema:
        found: Schema = self._components["schemas"][name]
        return found

    def query_names(self, path: str) -> set[str]:
        parameters = self.paths[path]["get"].get("parameters", [])
        return {each["name"] for each in parameters if each.get("in") == "query"}

    def answer(self, method: str, path: str, *, full: bool) -> object:
        """What a success of this operation holds."""
        responses = self.paths[path][method.lower()]["responses"]
        said = next(responses[status] for status in ("200", "201", "204") if status in responses)
        content = said.get("content", {})
        if "application/json" not in content:
            return "text" if content else None
        return self.value(content["application/json"]["schema"], full=full)

    def value(self, schema: Schema, *, full: bool) -> object:
        """A value that the schema allows; without `full` as empty as it may be."""
        if "$ref" in schema:
            return self.value(self.schema(schema["$ref"].rpartition("/")[2]), full=full)
        if "anyOf" in schema:
            return self.value(schema["anyOf"][0], full=True) if full else None
        kinds = schema.get("type", "object")
        kind = kinds if isinstance(kinds, str) else kinds[0]
        if not full and "null" in kinds:
            return None
        return self._of_kind(kind, schema, full=full)

    def _of_kind(self, kind: str, schema: Schema, *, full: bool) -> object:
        if kind == "array":
            return [self.value(schema.get("items", {"type": "integer"}), full=full)] if full else []
        if kind == "object":
            properties = schema.get("properties", {})
            return {name: self.value(properties[name], full=full) for name in schema.get("required", [])}
        return {"string": "text", "integer": 3, "number": 1.5, "boolean": True}[kind]
