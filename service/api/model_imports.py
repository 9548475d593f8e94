"""`POST /models/import`: a catalog entry from a published config, and from the headers of its files where given."""

from datetime import UTC, datetime
from io import BytesIO
from typing import Any

from flask import Response, request

from service.api import limits
from service.api.auth import TOKEN_SECURITY
from service.api.catalog_reads import Kind
from service.api.catalog_writes import store_entry, writer_of_request
from service.api.large_bodies import Text, read_members
from service.api.preconditions import Precondition
from service.api.rest import Blueprint
from service.api.schemas.closed import Asked
from service.api.schemas.imports import IMPORT_BODY, LARGE
from service.api.schemas.models import MODEL_ENTRY
from service.api.services import services, snapshot
from service.domain.catalog import Entry
from service.domain.files import read_gguf, read_index, read_safetensors_json
from service.domain.importing import Checkpoint, Naming
from service.storage.canonical import whole_numbers


def add_import(models: Blueprint, kind: Kind, example: dict[str, Any]) -> None:
    """Add the route to the resource of models."""

    def view() -> Response:
        """Weights are what the headers say the files hold, without them what the config's shapes come to."""
        writer = writer_of_request()
        condition = Precondition.of(request.environ, may_create=True)
        settings = services().settings
        most_bytes = max(settings.max_body_bytes, limits.IMPORT_BYTES)
        members = read_members(request.environ, most_bytes, settings.max_json_depth, LARGE)
        asked = IMPORT_BODY.read({name: value for name, value in members.items() if not _is_null(value)})
        facts = whole_numbers(_facts(asked))
        return store_entry(kind, Entry(kind.kind, facts["id"], facts, 0), writer, condition, overwrite=False)

    view.__name__ = "import_model"
    models.answers(MODEL_ENTRY, "The entry as it is now.", headers=("ETag",))(view)
    models.answers(MODEL_ENTRY, "The entry was created.", 201, headers=("ETag", "Location"))(view)
    models.takes_body(IMPORT_BODY, {"a config": {"value": example}})(view)
    models.named("importModel", summary="Take a model into the catalog", security=TOKEN_SECURITY)(view)
    models.route(f"{kind.path}/import", methods=["POST"])(view)


def _is_null(value: object) -> bool:
    return isinstance(value, Text) and bytes(value.data[:5]).strip() == b"null"


def _facts(asked: Asked) -> dict[str, Any]:
    checkpoint = Checkpoint(asked["config"], snapshot())
    if "safetensors_index" in asked:
        pointer = "/safetensors_index"
        checkpoint.set_index(read_index(asked[pointer[1:]].data, checkpoint.layers, pointer), pointer)
    texts = asked.get("safetensors_header", ())
    for number, text in enumerate(texts):
        pointer = f"/safetensors_header/{number}" if len(texts) > 1 else "/safetensors_header"
        checkpoint.add_tensors(read_safetensors_json(text.data, pointer), pointer)
    if "gguf_header" in asked:
        header, tensors = read_gguf(BytesIO(asked["gguf_header"]).read, "/gguf_header")
        checkpoint.add_tensors(tensors, "/gguf_header", header.file_type)
    said = {name: asked[name] for name in ("name", "family", "licence") if name in asked}
    return checkpoint.facts(Naming(hub_id=asked["hub_id"], checked=f"{datetime.now(UTC):%Y-%m-%d}", **said))
