"""The devices: units, memory as processes see it, and dense peaks in the ratios that hardware has."""

from collections.abc import Mapping

import pytest

from tests.catalog.catalog_files import GIB, Facts, cards, entries, near

MEASURED_GIB = {
    "h100-sxm-80gb": 79.19, "a100-sxm-80gb": 79.15, "a100-sxm-40gb": 39.39, "h200-sxm-141gb": 139.80,
    "gb200-186gb": 184.31, "b300-sxm-288gb": 267.69, "b200-sxm-180gb": 178.35, "mi300x": 191.98, "l40s": 44.39,
    "a40": 44.97, "rtx-pro-6000-blackwell-server": 94.97, "rtx-5090": 31.36, "rtx-4090": 23.53, "rtx-3090": 23.58,
    "a10g": 22.07, "l4": 22.04, "t4": 14.56, "v100-sxm2-32gb": 31.74, "rx-7900-xtx": 23.98,
    "radeon-ai-pro-r9700": 31.86, "rtx-3060-ti": 7.65, "rtx-3070": 7.64, "rtx-3080-ti": 11.63, "rtx-4060-ti-8gb": 7.62,
    "rtx-4060-ti-16gb": 15.57, "rtx-4070": 11.59, "rtx-4080-super": 15.56, "rtx-5060-ti-16gb": 15.45,
    "rtx-5070-ti": 15.44, "rtx-2060-12gb": 11.56, "gtx-1080-ti": 10.91, "quadro-rtx-8000": 47.25, "rx-7900-xt": 19.98,
    "rx-9070-xt": 15.92, "mi50-32gb": 31.98, "arc-a770-16gb": 15.11, "jetson-orin-nano-8gb": 7.44,
    "jetson-agx-orin-64gb": 61.35, "apple-m4-16gb": 11.84, "apple-m4-max-36gb": 28.08,
}  # fmt: skip

# A type's rate over the 16-bit rate is 2 for 8 bits; where it is not, the entry says why.
FP8_RATIOS = dict.fromkeys(("gaudi3-128gb", "tpu-v6e", "trainium1", "inferentia2"), 1)
INT8_RATIOS = dict.fromkeys(
    ("mi210", "mi250x-gcd", "mi455x", "rx-7900-xtx", "rx-7900-xt", "rx-7900-gre", "radeon-pro-w7900",
     "radeon-pro-w7800", "ryzen-ai-max-395", "tpu-v4"), 1
)  # fmt: skip
INT8_BELOW_16_BIT = {"b300-sxm-288gb", "gb300-288gb"} | {name for name in cards() if name.startswith("v100")}
GEFORCE_50 = (
    "rtx-5060-ti-8gb", "rtx-5060-ti-16gb", "rtx-5070", "rtx-5070-ti", "rtx-5080", "rtx-5090", "rtx-5090-laptop",
)  # fmt: skip
NVFP4_RATIOS = {"b300-sxm-288gb": 3.11, "gb300-288gb": 3} | dict.fromkeys(GEFORCE_50, 4)


def peak(gpu: Facts, kind: str) -> float | None:
    rate: float | None = gpu["peak_flops_per_second"][kind]
    return rate


def odd_ratios(kind: str, under: str, wanted: Mapping[str, float], usual: float) -> list[str]:
    """Devices whose rate of one type is not the wanted multiple of another's."""
    rates = [(name, peak(gpu, kind), peak(gpu, under) or peak(gpu, "fp16")) for name, gpu in cards().items()]
    return [n for n, part, whole in rates if part and whole and not near(part / whole, wanted.get(n, usual))]


def visible_share(gpu: Facts) -> float | None:
    memory = gpu["memory"]
    return memory["visible_bytes"] / memory["advertised_bytes"] if memory["visible_bytes"] else None


def test_a_process_never_sees_more_than_the_driver_has() -> None:
    memories = {name: gpu["memory"] for name, gpu in entries("gpu").items()}
    both = {n: m for n, m in memories.items() if m["visible_bytes"] and m["driver_total_bytes"]}

    assert len(both) > 60
    assert [n for n, m in both.items() if m["visible_bytes"] > m["driver_total_bytes"]] == []


def test_visible_memory_is_near_the_number_on_the_box() -> None:
    # Makers print GB and mean either; a system may keep a quarter of unified memory for itself.
    bounds = {name: 0.75 if gpu["memory"]["unified"] else 0.90 for name, gpu in entries("gpu").items()}
    shares = {name: visible_share(gpu) for name, gpu in entries("gpu").items()}

    assert [name for name, share in shares.items() if share and not bounds[name] <= share <= 1.10] == []


@pytest.mark.parametrize("name, gib", MEASURED_GIB.items())
def test_visible_memory_is_what_start_up_logs_print(name: str, gib: float) -> None:
    memory = entries("gpu")[name]["memory"]

    assert memory["visible_source"] == "measured"
    assert round(memory["visible_bytes"] / GIB, 2) == gib


def test_the_range_of_what_was_seen_holds_the_figure() -> None:
    memories = {name: gpu["memory"] for name, gpu in entries("gpu").items()}
    ranges = {name: of["visible_range_bytes"] for name, of in memories.items() if "visible_range_bytes" in of}

    assert ranges
    assert [n for n, (low, high) in ranges.items() if not low <= memories[n]["visible_bytes"] <= high] == []


def test_memory_that_is_modelled_or_recalled_or_unknown_says_so_in_words() -> None:
    words = {"measured": "", "modelled": "modelled", "recalled": "recalled", None: "memory_bytes"}
    silent = [
        name
        for name, gpu in entries("gpu").items()
        if words[gpu["memory"]["visible_source"]] not in gpu["provenance"]["notes"]
    ]

    assert silent == []


def test_only_memory_with_a_figure_has_a_source() -> None:
    memories = {name: gpu["memory"] for name, gpu in entries("gpu").items()}

    assert [n for n, m in memories.items() if (m["visible_bytes"] is None) != (m["visible_source"] is None)] == []


@pytest.mark.parametrize("kind, less_gib", [("HBM", 0.7), ("GDDR", 0.45)])
def test_a_modelled_nvidia_total_follows_the_stated_rule(kind: str, less_gib: float) -> None:
    ruled = [gpu["memory"] for gpu in cards().values() if f"total less {less_gib} GiB" in gpu["provenance"]["notes"]]

    assert len(ruled) >= 2
    assert all(memory["type"].startswith(kind) for memory in ruled)
    assert [m for m in ruled if m["visible_bytes"] != m["driver_total_bytes"] - round(less_gib * GIB)] == []


def test_the_number_on_the_box_is_a_whole_number_of_gigabytes() -> None:
    assert [name for name, gpu in entries("gpu").items() if gpu["memory"]["advertised_bytes"] % 10**9] == []


def test_rates_are_in_plain_units() -> None:
    bandwidths = {name: gpu["memory"]["bandwidth_bytes_per_second"] for name, gpu in entries("gpu").items()}
    peaks = {(n, kind): r for n, gpu in entries("gpu").items() for kind, r in gpu["peak_flops_per_second"].items() if r}
    links = {name: gpu["interconnect"]["nvlink_bytes_per_second"] for name, gpu in entries("gpu").items()}

    assert [name for name, rate in bandwidths.items() if not 40e9 <= rate <= 30e12] == []
    assert [name for name, rate in peaks.items() if not 0.5e12 <= rate <= 25e15] == []
    assert [name for name, rate in links.items() if rate and not 50e9 <= rate <= 4e12] == []


def test_caches_are_of_the_size_of_caches() -> None:
    sizes = {name: gpu["l2_cache_bytes"] for name, gpu in entries("gpu").items()}

    assert [name for name, size in sizes.items() if size and not 2**18 <= size <= 2**29] == []


def test_the_two_16_bit_types_run_at_one_rate() -> None:
    assert odd_ratios("bf16", "fp16", {"gaudi3-128gb": 3.65, "mi100": 0.5}, 1) == []


def test_fp8_runs_at_twice_the_16_bit_rate() -> None:
    assert odd_ratios("fp8", "bf16", FP8_RATIOS, 2) == []


def test_int8_runs_at_twice_the_16_bit_rate() -> None:
    # GeForce halves 16-bit products that accumulate in 32 bits, but not integer ones.
    geforce = {name: 4.0 for name, gpu in cards().items() if gpu["name"].startswith("GeForce")}
    odd = odd_ratios("int8", "bf16", INT8_RATIOS | geforce, 2)

    assert set(odd) == INT8_BELOW_16_BIT


def test_a_card_without_an_int8_tensor_rate_is_slower_in_it() -> None:
    slower = {name for name, gpu in cards().items() if (peak(gpu, "int8") or 1e18) < (peak(gpu, "fp16") or 0)}

    assert slower == INT8_BELOW_16_BIT


def test_fp4_runs_at_twice_the_fp8_rate_or_more() -> None:
    assert odd_ratios("fp4", "fp8", NVFP4_RATIOS, 2) == []


@pytest.mark.parametrize(
    "architecture, absent",
    [("maxwell", ("fp16", "bf16", "fp8", "fp4", "tf32", "int8")), ("pascal", ("bf16", "fp8", "fp4", "tf32")),
     ("volta", ("bf16", "fp8", "fp4", "tf32")), ("turing", ("bf16", "fp8", "fp4")), ("ampere", ("fp8", "fp4")),
     ("ada", ("fp4",)), ("hopper", ("fp4",)), ("gcn5.1", ("bf16", "fp8", "fp4")), ("cdna", ("fp8", "fp4")),
     ("cdna2", ("fp8", "fp4")), ("rdna2", ("bf16", "fp8", "fp4")), ("rdna3", ("fp8", "fp4"))],
)  # fmt: skip
def test_an_architecture_has_no_rate_for_a_type_it_cannot_multiply(architecture: str, absent: tuple[str, ...]) -> None:
    of_it = [gpu["peak_flops_per_second"] for gpu in entries("gpu").values() if gpu["architecture"] == architecture]

    assert of_it
    assert [peaks[kind] for peaks in of_it for kind in absent if peaks[kind]] == []


@pytest.mark.parametrize(
    "name, entry",
    [
        ("NVIDIA A100-SXM4-80GB", "a100-sxm-80gb"), ("NVIDIA H100 80GB HBM3", "h100-sxm-80gb"),
        ("nvidia-h100-80gb", "h100-sxm-80gb"), ("H100", "h100-sxm-80gb"), ("NVIDIA H200", "h200-sxm-141gb"),
        ("NVIDIA-H100-NVL", "h100-nvl-94gb"), ("Tesla T4", "t4"), ("NVIDIA GeForce RTX 4090", "rtx-4090"),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "h100-sxm-80gb-mig-1g-10gb"), ("AMD Instinct MI300X", "mi300x"),
        ("NVIDIA GeForce RTX 3070", "rtx-3070"), ("NVIDIA-GeForce-RTX-4070-SUPER", "rtx-4070-super"),
        ("RTX 5070 Ti", "rtx-5070-ti"), ("NVIDIA RTX PRO 5000 72GB Blackwell", "rtx-pro-5000-blackwell-72gb"),
        ("NVIDIA RTX PRO 5000 Blackwell", "rtx-pro-5000-blackwell-48gb"), ("Tesla M40 24GB", "m40-24gb"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", "rtx-4090-laptop"), ("AMD Radeon RX 9070 XT", "rx-9070-xt"),
    ],
)  # fmt: skip
def test_a_card_answers_to_what_drivers_and_clouds_call_it(name: str, entry: str) -> None:
    assert name in entries("gpu")[entry]["aliases"]


@pytest.mark.parametrize(
    "name",
    ["A100", "V100", "GH200", "P100", "A800", "RTX 3080", "NVIDIA GeForce RTX 3080", "NVIDIA GeForce RTX 4060 Ti",
     "NVIDIA GeForce RTX 5060 Ti", "RTX PRO 5000", "AMD Instinct MI60 / MI50", "Orin", "Apple M4 Max",
     "Apple M3 Ultra"],
)  # fmt: skip
def test_a_name_that_two_cards_share_is_nobodys(name: str) -> None:
    assert [gpu["id"] for gpu in entries("gpu").values() if name in gpu["aliases"]] == []
