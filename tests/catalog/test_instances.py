"""The machines that clouds rent, and their dated prices."""

from collections import Counter

import pytest

from tests.catalog.catalog_files import GIB, Facts, entries

UNVERIFIED = (
    "aws-p3-16xlarge", "aws-g4dn-12xlarge", "aws-inf2-48xlarge", "gcp-g2-standard-96", "gcp-a2-ultragpu-8g",
    "azure-standard-nd96amsr-a100-v4", "azure-standard-nv36ads-a10-v5", "coreweave-hgx-h100",
)  # fmt: skip


def priced() -> dict[str, Facts]:
    return {name: of for name, of in entries("instance").items() if of["price"]}


def test_a_machine_holds_devices_of_the_catalog() -> None:
    assert [name for name, of in entries("instance").items() if of["gpu"] not in entries("gpu")] == []


def test_no_cloud_has_two_types_of_one_name() -> None:
    seen = Counter((of["cloud"], of["name"]) for of in entries("instance").values())

    assert [name for name, count in seen.items() if count > 1] == []


def test_a_price_is_of_a_plausible_size_for_its_devices() -> None:
    per_device = {name: of["price"]["usd_per_hour"] / of["gpu_count"] for name, of in priced().items()}

    assert len(per_device) > 80
    assert [name for name, usd in per_device.items() if not 0.1 <= usd <= 20] == []


def test_a_price_is_dated_and_says_that_it_is_no_offer() -> None:
    assert [name for name, of in priced().items() if of["price"]["as_of"] < "2025"] == []
    assert {of["price"]["indicative"] for of in priced().values()} == {True}


@pytest.mark.parametrize("name", UNVERIFIED)
def test_an_unverified_price_is_left_out(name: str) -> None:
    assert entries("instance")[name]["price"] is None


def test_the_price_cut_of_2025_is_in() -> None:
    machines = entries("instance")

    assert machines["aws-p5-48xlarge"]["price"]["usd_per_hour"] == 55.04
    assert machines["aws-p4d-24xlarge"]["price"]["usd_per_hour"] == 21.957642


def test_host_memory_is_a_whole_number_of_gibibytes() -> None:
    assert [name for name, of in entries("instance").items() if (of["memory_bytes"] or 0) % GIB] == []
