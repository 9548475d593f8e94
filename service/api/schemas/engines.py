"""Engines: what their list is asked with, and what is answered of each."""

from service.api.schemas.answer_parts import AnswerSchema, rows, text, whole
from service.api.schemas.catalog import CatalogQuery, Page, facts, names


class EnginesQuery(CatalogQuery):
    """What the list of engines is asked with."""


class EngineRow(AnswerSchema):
    """An engine in a list."""

    id = text("What engine takes.")
    name = text("For people.", null=True)
    newest_version = text("What engine_version is by default; null where it has no versions.", null=True)
    known_versions = whole("How many releases engine_version may name.")
    revision = whole("Catalog revision that it last changed in.")


class EnginesPage(Page):
    """A page of engines."""

    items = rows(EngineRow(), "In the order of ids.")


class EngineEntry(EngineRow):
    """One engine, whole."""

    aliases = names("Other names that it answers to.")
    facts = facts("What it keeps for itself and how it counts, by release, with evidence; what PUT takes.")


ENGINES_QUERY = EnginesQuery.for_query()
ENGINES_PAGE = EnginesPage()
ENGINE_ENTRY = EngineEntry()
