"""GPUs: what their list is asked with, and what is answered of each."""

from typing import ClassVar

from service.api.schemas.answer_parts import AnswerSchema, flag, number, rows, text, whole
from service.api.schemas.catalog import CatalogQuery, Filters, Page, bound, facts, names, one_of, ranges, yes_or_no


class GpusQuery(CatalogQuery):
    """What the list of GPUs is asked with."""

    filters: ClassVar[Filters] = Filters(
        {"vendor": "vendor", "architecture": "architecture", "mig": "mig", "mig_parent": "mig_parent"},
        *ranges("memory_bytes", "visible_memory_bytes", "bandwidth_bytes_per_second", "release_year"),
    )

    vendor = one_of("Who makes it.", "nvidia")
    architecture = one_of("Architecture generation.", "hopper")
    mig = yes_or_no("true: slices of a card alone; false: whole cards alone.")
    mig_parent = one_of("Slices of this card.")
    min_memory_bytes = bound("At least so much on the box.", "bytes")
    max_memory_bytes = bound("At most so much on the box.", "bytes")
    min_visible_memory_bytes = bound("At least so much seen by a process.", "bytes")
    max_visible_memory_bytes = bound("At most so much seen by a process.", "bytes")
    min_bandwidth_bytes_per_second = bound("At least so fast.", "rate")
    max_bandwidth_bytes_per_second = bound("At most so fast.", "rate")
    min_release_year = bound("Released then or later.", "year")
    max_release_year = bound("Released then or earlier.", "year")


class GpuRow(AnswerSchema):
    """A GPU in a list."""

    id = text("Slug.")
    name = text("As its maker writes it.", null=True)
    vendor = text("Who makes it.", null=True)
    architecture = text("Architecture generation.", null=True)
    compute_capability = text("CUDA compute capability, gfx name or Metal family.", null=True)
    memory_bytes = whole("Advertised: the number on the box.", null=True)
    visible_memory_bytes = whole("What a process sees, which engines divide up.", null=True)
    visible_memory_source = text("measured, modelled or recalled.", null=True)
    memory_type = text("As the vendor writes it.", null=True)
    bandwidth_bytes_per_second = number("Published peak.", null=True)
    peak_fp32_flops_per_second = number("Dense.", null=True)
    peak_tf32_flops_per_second = number("Dense.", null=True)
    peak_fp16_flops_per_second = number("Dense.", null=True)
    peak_bf16_flops_per_second = number("Dense.", null=True)
    peak_fp8_flops_per_second = number("Dense.", null=True)
    peak_int8_flops_per_second = number("Dense, integer operations.", null=True)
    peak_fp4_flops_per_second = number("Dense.", null=True)
    nvlink_bytes_per_second = number("Both directions of one device.", null=True)
    power_watts = number("Board power limit as sold.", null=True)
    release_year = whole("Year of release.", null=True)
    mig = flag("Whether it is a slice of a card.")
    mig_parent = text("The card it is a slice of.", null=True)
    mig_profile = text("Its profile, such as 1g.10gb.", null=True)
    revision = whole("Catalog revision that it last changed in.")


class GpusPage(Page):
    """A page of GPUs."""

    items = rows(GpuRow(), "In the order of ids.")


class GpuEntry(GpuRow):
    """One GPU, whole."""

    aliases = names("What drivers, torch and clouds call it.")
    facts = facts("All that the catalog says of it, with sources; what PUT takes.")


GPUS_QUERY = GpusQuery.for_query()
GPUS_PAGE = GpusPage()
GPU_ENTRY = GpuEntry()
