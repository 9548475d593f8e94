"""MIG slices: each a device, a fraction of its card."""

from fractions import Fraction

import pytest

from tests.catalog.catalog_files import Facts, cards, entries, near, slices


def card_of(piece: Facts) -> Facts:
    return entries("gpu")[piece["mig"]["parent"]]


def share(piece: Facts, of: str) -> Fraction:
    return Fraction(piece["mig"][f"{of}_fraction"])


def expected_bytes(piece: Facts) -> tuple[float, float]:
    """Least and most visible memory: its fraction exactly where modelled, up to a tenth less where listed."""
    whole = card_of(piece)["memory"]["visible_bytes"] * share(piece, "memory")
    return (round(whole), round(whole)) if piece["memory"]["visible_source"] == "modelled" else (0.9 * whole, whole)


def odd_peaks(piece: Facts) -> list[str]:
    whole, own = card_of(piece)["peak_flops_per_second"], piece["peak_flops_per_second"]
    wanted = {kind: rate and rate * float(share(piece, "compute")) for kind, rate in whole.items()}
    return [kind for kind, rate in own.items() if (rate is None) != (wanted[kind] is None)] + [
        kind for kind, rate in own.items() if rate and not near(rate, wanted[kind], 0.001)
    ]


def test_every_profile_of_every_card_is_a_device() -> None:
    assert len(slices()) == 138


def test_a_card_lists_exactly_its_own_slices() -> None:
    listed = {name: sorted(card["mig"]) for name, card in cards().items() if card["mig"]}
    owned = {name: sorted(s for s, of in slices().items() if of["mig"]["parent"] == name) for name in listed}

    assert listed == owned


def test_a_slice_is_named_for_its_card_and_profile() -> None:
    wanted = {
        name: f"{of['mig']['parent']}-mig-{of['mig']['profile']}".replace(".", "-") for name, of in slices().items()
    }

    assert [name for name, built in wanted.items() if name != built] == []


@pytest.mark.parametrize("of", ["memory", "compute"])
def test_as_many_slices_as_the_driver_offers_fit_on_the_card(of: str) -> None:
    assert [name for name, piece in slices().items() if piece["mig"]["instances"] * share(piece, of) > 1] == []


def test_a_slice_has_its_fraction_of_the_memory() -> None:
    known = {name: piece for name, piece in slices().items() if card_of(piece)["memory"]["visible_bytes"]}
    bounds = {name: expected_bytes(piece) for name, piece in known.items()}

    assert len(known) >= 132
    assert [n for n, of in known.items() if not bounds[n][0] <= of["memory"]["visible_bytes"] <= bounds[n][1]] == []


def test_a_slice_of_a_card_whose_memory_is_unknown_has_unknown_memory() -> None:
    unknown = [piece for piece in slices().values() if card_of(piece)["memory"]["visible_bytes"] is None]

    assert unknown
    assert {piece["memory"]["visible_bytes"] for piece in unknown} == {None}


def test_a_slice_has_its_memory_fraction_of_the_bandwidth() -> None:
    rates = {
        name: [gpu["memory"]["bandwidth_bytes_per_second"] for gpu in (piece, card_of(piece))]
        for name, piece in slices().items()
    }

    assert [name for name, (own, whole) in rates.items() if own != whole * share(slices()[name], "bandwidth")] == []
    assert [name for name, of in slices().items() if share(of, "bandwidth") != share(of, "memory")] == []


def test_a_slice_has_its_fraction_of_every_peak() -> None:
    assert {name: odd for name, piece in slices().items() if (odd := odd_peaks(piece))} == {}


def test_a_slice_has_no_link_to_other_devices() -> None:
    assert {piece["interconnect"]["nvlink_bytes_per_second"] for piece in slices().values()} == {None}


@pytest.mark.parametrize(
    "name, memory, compute",
    [("a100-sxm-80gb-mig-1g-10gb", "1/8", "1/7"), ("a100-sxm-80gb-mig-1g-20gb", "1/4", "1/7"),
     ("h100-sxm-80gb-mig-3g-40gb", "1/2", "3/7"), ("h100-sxm-80gb-mig-4g-40gb", "1/2", "4/7"),
     ("h100-sxm-80gb-mig-7g-80gb", "1/1", "1/1"), ("a30-mig-1g-6gb", "1/4", "1/4"),
     ("rtx-pro-6000-blackwell-server-mig-2g-48gb", "1/2", "1/2")],
)  # fmt: skip
def test_a_profile_is_the_fraction_that_the_vendors_guide_says(name: str, memory: str, compute: str) -> None:
    mig = slices()[name]["mig"]

    assert (mig["memory_fraction"], mig["compute_fraction"]) == (memory, compute)
