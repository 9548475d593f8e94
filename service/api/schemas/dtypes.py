"""Number formats: what their list is asked with, and what is answered of each."""

from typing import ClassVar

from service.api.schemas.answer_parts import AnswerSchema, flag, number, rows, text, whole
from service.api.schemas.catalog import CatalogQuery, Filters, Page, facts, names, yes_or_no


class DtypesQuery(CatalogQuery):
    """What the list of number formats is asked with."""

    filters: ClassVar[Filters] = Filters({"weight": "weight", "kv": "kv", "gguf_mix": "gguf_mix"}, {}, {})

    weight = yes_or_no("Whether weights are stored in it.")
    kv = yes_or_no("Whether a cache is kept in it.")
    gguf_mix = yes_or_no("Whether it is a GGUF file type, which mixes formats.")


class DtypeRow(AnswerSchema):
    """A number format in a list."""

    id = text("What weight_dtype or kv_dtype takes.")
    name = text("For people.", null=True)
    weight = flag("Whether weights are stored in it.")
    kv = flag("Whether a cache is kept in it.")
    gguf_mix = flag("Whether it is a GGUF file type, which mixes formats.")
    weight_element_bits = number("Bits of a weight without its scales.", null=True)
    kv_element_bits = number("Bits of a cached element without its scales.", null=True)
    revision = whole("Catalog revision that it last changed in.")


class DtypesPage(Page):
    """A page of number formats."""

    items = rows(DtypeRow(), "In the order of ids.")


class DtypeEntry(DtypeRow):
    """One number format, whole."""

    aliases = names("Other spellings, as engines write them.")
    facts = facts("Widths, scales and evidence, as the catalog has them; what PUT takes.")


DTYPES_QUERY = DtypesQuery.for_query()
DTYPES_PAGE = DtypesPage()
DTYPE_ENTRY = DtypeEntry()
