"""Models: what their list is asked with, what is answered of each, and the normal form."""

from typing import ClassVar

from marshmallow import fields
from marshmallow.validate import Length

from service.api.schemas.answer_parts import AnswerSchema, flag, number, rows, sentences, text, whole
from service.api.schemas.catalog import CatalogQuery, Filters, Page, bound, facts, names, one_of, ranges, yes_or_no
from service.api.schemas.closed import Asked, ClosedSchema
from service.api.schemas.fields import Choice, Document
from service.domain.errors import Fault


class ModelsQuery(CatalogQuery):
    """What the list of models is asked with."""

    filters: ClassVar[Filters] = Filters(
        {name: name for name in ("family", "architecture", "has_reader", "weight_dtype", "licence")},
        *ranges("parameters", "active_parameters", "context_tokens"),
    )

    family = one_of("Family it belongs to.", "llama-2")
    architecture = one_of("The config's model_type, which decides the reader.", "llama")
    has_reader = yes_or_no("Whether a reader knows its architecture, so that it can be quoted.")
    weight_dtype = one_of("Number format of its checkpoint: a name from /dtypes.")
    licence = one_of("Licence as the hub tags it.", "apache-2.0")
    min_parameters = bound("At least so many.", "parameters")
    max_parameters = bound("At most so many.", "parameters")
    min_active_parameters = bound("At least so many used by one token.", "parameters")
    max_active_parameters = bound("At most so many used by one token.", "parameters")
    min_context_tokens = bound("Published for at least so long a context.", "tokens")
    max_context_tokens = bound("Published for at most so long a context.", "tokens")


class ModelRow(AnswerSchema):
    """A model in a list."""

    id = text("Slug.")
    name = text("As it is published.", null=True)
    hub_id = text("Hugging Face id, owner/name.", null=True)
    family = text("Family it belongs to.", null=True)
    architecture = text("The config's model_type, which decides the reader.", null=True)
    has_reader = flag("Whether a reader knows its architecture, so that it can be quoted.")
    parameters = whole("Parameters that an engine loads.", null=True)
    active_parameters = whole("Those that one token uses.", null=True)
    context_tokens = whole("Longest sequence it is published for.", null=True)
    weight_dtype = text("Number format of its checkpoint.", null=True)
    weight_bytes = whole("Of the checkpoint's tensors: compared to the byte, or else estimated.", null=True)
    licence = text("Licence as the hub tags it.", null=True)
    released = text("Day of release.", null=True)
    revision = whole("Catalog revision that it last changed in.")


class ModelsPage(Page):
    """A page of models."""

    items = rows(ModelRow(), "In the order of ids.")


class CacheLayers(AnswerSchema):
    """Layers that own equal caches."""

    kind = text("full, sliding, chunked, latent, indexer, cross or recurrent.")
    layers = fields.List(
        fields.Integer(strict=True), required=True, metadata={"description": "Indices of the layers that own one."}
    )
    kv_heads = whole("Heads that it is divided by; 1 where one vector serves all.")
    key_width = whole("Elements of a head's key.")
    value_width = whole("Elements of a head's value; 0 where values are read from the keys.")
    window_tokens = whole("Tokens kept at most; null where all are.", null=True)
    state_bytes = whole("Bytes a sequence takes however long it is.")
    shared_with = fields.List(
        fields.Integer(strict=True),
        required=True,
        metadata={"description": "Layers that read these caches without owning one."},
    )
    query_heads = whole("Heads of the queries that read it; 0 where none does.")
    tokens_per_row = whole("Tokens that one vector stands for; 1 but for compressed attention.")
    read_limit_tokens = whole("Tokens of those kept that a step reads at most; null where it reads all.", null=True)


class WeightModule(AnswerSchema):
    """Equal weight tensors of one role."""

    name = text("The reader's name for them.")
    kind = text("What they do: attention, mlp, expert, norm, embedding and so on.")
    count = whole("How many such tensors the model has.")
    shape = fields.List(
        fields.Integer(strict=True),
        required=True,
        validate=Length(equal=2),
        metadata={"description": "Rows and columns of one; a vector has one column."},
    )
    parameters = whole("Elements of all of them.")
    active_per_token = whole("Elements of those that one token uses.")
    layers = fields.List(
        fields.Integer(strict=True),
        required=True,
        metadata={"description": "Indices of the layers that have them; empty outside the layers."},
    )


class ModelEntry(ModelRow):
    """One model, whole, with its normal form."""

    aliases = names("Siblings of the same shape that answer to this entry.")
    cache_layers = rows(CacheLayers(), "The caches of its layers; null where no reader knows it.", null=True)
    modules = rows(WeightModule(), "Its weight tensors; null where no reader knows it.", null=True)
    unread_reason = text("Why there is no normal form; null where there is one.", null=True)
    facts = facts("All that the catalog says of it, with sources; what PUT takes.")


class InspectQuestion(ClosedSchema):
    """A config to look at."""

    config = Document(metadata={"description": "A published config.json, whole or cut to what matters."})
    assume = Choice(
        ["decoder"],
        metadata={"description": "Take an unknown family with a standard decoder's fields as one, with a warning."},
    )

    def contradictions(self, asked: Asked) -> list[Fault]:
        """There must be a config."""
        return [] if "config" in asked else [Fault("/config", "Give a config.")]


class InspectAnswer(AnswerSchema):
    """What a config says: its counts and its normal form."""

    architecture = text("The config's model_type, which decides the reader.")
    parameters = whole("Counted from the shapes.")
    active_parameters = number("Those that one token uses.")
    context_tokens = whole("Longest sequence that the config states.", null=True)
    weight_dtype = text("Number format that the config says its checkpoint has; else the type it computes in.")
    kv_dtype = text("Number format of the cache unless a question says otherwise.")
    cache_layers = rows(CacheLayers(), "The caches of its layers.")
    modules = rows(WeightModule(), "Its weight tensors.")
    assumptions = sentences("What was taken for granted where the config is silent.")
    warnings = sentences("What may not be as meant.")


MODELS_QUERY = ModelsQuery.for_query()
MODELS_PAGE = ModelsPage()
MODEL_ENTRY = ModelEntry()
INSPECT_BODY = InspectQuestion()
INSPECT_ANSWER = InspectAnswer()
