"""`/models`: published checkpoints with their normal form, and `/models/inspect`: the same for any config."""

from collections.abc import Callable
from typing import Any

from flask import Response

from service.api.catalog_reads import Kind
from service.api.catalog_resource import Documents, catalog_resource
from service.api.model_imports import add_import
from service.api.replies import posted
from service.api.schemas.closed import Asked
from service.api.schemas.models import (
    INSPECT_ANSWER,
    INSPECT_BODY,
    MODEL_ENTRY,
    MODELS_PAGE,
    MODELS_QUERY,
    ModelRow,
)
from service.domain.catalog import CatalogKind, Entry
from service.domain.errors import QuoteError
from service.domain.model import Model, from_config
from service.domain.normal_form import cache_layers, modules

EXAMPLES: dict[str, dict[str, dict[str, object]]] = {
    "a config": {
        "value": {
            "config": {
                "model_type": "llama",
                "hidden_size": 2048,
                "intermediate_size": 5632,
                "num_hidden_layers": 22,
                "num_attention_heads": 32,
                "num_key_value_heads": 4,
                "vocab_size": 32000,
                "max_position_embeddings": 2048,
            }
        }
    }
}


def _normal_form(_entry: Entry, read_model: Callable[[], Model]) -> dict[str, Any]:
    """The shapes of a model, or null and the reason where no reader knows it."""
    try:
        architecture = read_model().architecture
    except QuoteError as error:
        return {"cache_layers": None, "modules": None, "unread_reason": error.detail}
    return {"cache_layers": cache_layers(architecture), "modules": modules(architecture), "unread_reason": None}


_KIND = Kind(
    kind=CatalogKind.MODEL,
    path="/models",
    query=MODELS_QUERY,
    columns=tuple(ModelRow().fields),
    references={"weight_dtype": CatalogKind.DTYPE},
    more=_normal_form,
)

models = catalog_resource(
    _KIND, Documents("Model", "Models", "a model", "Published checkpoints.", MODELS_PAGE, MODEL_ENTRY)
)

add_import(models, _KIND, {"hub_id": "owner/a-model", **EXAMPLES["a config"]["value"]})


@models.route("/models/inspect", methods=["POST"])
@models.asks_by_body(INSPECT_BODY, EXAMPLES)
@models.answers(INSPECT_ANSWER, "What the config says.")
@models.named("inspectModel", summary="Read a config without storing it")
def inspect_model(asked: Asked) -> Response:
    """The counts and the normal form that a quote of the config would rest on."""
    model = from_config(asked["config"], assume_decoder="assume" in asked)
    architecture = model.architecture
    return posted(
        {
            "architecture": architecture.model_type,
            "parameters": architecture.parameters,
            "active_parameters": architecture.active_parameters,
            "context_tokens": model.context_tokens,
            "weight_dtype": model.checkpoint_format,
            "kv_dtype": model.cache_format or model.compute_type,
            "cache_layers": cache_layers(architecture),
            "modules": modules(architecture),
            "assumptions": list(architecture.assumptions),
            "warnings": list(architecture.warnings),
        }
    )
