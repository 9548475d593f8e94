"""Instances: what their list is asked with, and what is answered of each."""

from typing import ClassVar

from service.api.schemas.answer_parts import AnswerSchema, number, rows, text, whole
from service.api.schemas.catalog import CatalogQuery, Filters, Page, bound, facts, names, one_of, ranges


class InstancesQuery(CatalogQuery):
    """What the list of instances is asked with."""

    filters: ClassVar[Filters] = Filters(
        {"cloud": "cloud", "gpu": "gpu", "sold_as": "sold_as"},
        *ranges("gpu_count", "memory_bytes", "price_usd_per_hour"),
    )

    cloud = one_of("Who rents it.", "aws")
    gpu = one_of("Slug or alias of its GPU.", "h100-sxm-80gb")
    sold_as = one_of("on_demand, capacity_block or reservation.")
    min_gpu_count = bound("At least so many GPUs.", "count")
    max_gpu_count = bound("At most so many GPUs.", "count")
    min_memory_bytes = bound("At least so much host memory.", "bytes")
    max_memory_bytes = bound("At most so much host memory.", "bytes")
    min_price_usd_per_hour = bound("At least so dear; leaves out those without a price.", "usd_per_hour")
    max_price_usd_per_hour = bound("At most so dear; leaves out those without a price.", "usd_per_hour")


class InstanceRow(AnswerSchema):
    """An instance in a list. Prices are indicative list prices of the stated day, never an offer."""

    id = text("Slug.")
    name = text("The cloud's own name of the type.", null=True)
    cloud = text("Who rents it.", null=True)
    gpu = text("Slug of its GPU.", null=True)
    gpu_count = whole("GPUs in it.", null=True)
    gpu_fraction = text("Share of one GPU, as n/m, where it has a part of one.", null=True)
    vcpus = whole("Virtual CPUs.", null=True)
    memory_bytes = whole("Host memory.", null=True)
    network_bits_per_second = number("Network rate of the machine.", null=True)
    sold_as = text("on_demand, capacity_block or reservation.", null=True)
    price_usd_per_hour = number("Indicative list price of the whole machine.", null=True)
    price_region = text("Region of the list.", null=True)
    price_as_of = text("Day, month or year of the list.", null=True)
    price_kind = text("on_demand, or derived from a smaller type's.", null=True)
    revision = whole("Catalog revision that it last changed in.")


class InstancesPage(Page):
    """A page of instances."""

    items = rows(InstanceRow(), "In the order of ids.")


class InstanceEntry(InstanceRow):
    """One instance, whole."""

    aliases = names("Other names that it answers to.")
    facts = facts("All that the catalog says of it, with sources; what PUT takes.")


INSTANCES_QUERY = InstancesQuery.for_query()
INSTANCES_PAGE = InstancesPage()
INSTANCE_ENTRY = InstanceEntry()
