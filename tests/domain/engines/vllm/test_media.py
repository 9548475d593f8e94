"""Limits of pictures, films and sounds, their sizes, an encoder that stands whole, and one that is not profiled."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.domain.architecture import ModuleKind, Shard
from service.domain.engines.vllm import VllmEngine
from service.domain.engines.vllm.shapes import TOWERS
from service.domain.errors import Fault, NotSupported, ValidationError
from tests.domain.conftest import CATALOG, Shelf
from tests.domain.engines.vllm.conftest import GIB, Hold, gib

QWEN25 = {"model": "qwen2.5-vl-7b-instruct", "gpu": "a100-sxm-80gb", "engine_version": "0.21.0"}
QWEN3 = {
    "model": "qwen3-vl-8b-instruct",
    "gpu": "rtx-a6000",
    "engine_version": "0.19.1",
    "context_tokens": 4096,
    "max_batched_tokens": 8192,
    "enforce_eager": True,
}
GEMMA = {"model": "gemma-3-27b-it", "gpu": "h100-sxm-80gb", "engine_version": "0.20.0", "max_batched_tokens": 8192}
PICTURES = ["image=4", "video=0"]


def tokens(quote: Hold, **asked: Any) -> int:  # noqa: ANN401  # as questions are
    """Tokens of pictures that are profiled; 0 where none are."""
    notes = [part.note for part in quote(**asked).parts if part.name == "encoder"]
    return int(notes[0].split()[2].replace(",", "")) if notes else 0


@pytest.mark.parametrize(
    "context, limits, expected",
    [
        # 14 frames two by two, of 16,384 tokens each: as many as the longest sequence holds.
        (128_000, None, 7 * 16384),
        (128_000, ["image=4"], 7 * 16384),
        (128_000, ["video=1"], 7 * 16384),
        (65_536, None, 4 * 16384),
        (8_192, None, 16384),
        (128_000, PICTURES, 16384),
        (128_000, ["image=0"], 7 * 16384),
        (128_000, ["image=0", "video=0"], 0),
    ],
)
def test_the_largest_item_of_what_is_taken_is_profiled(
    quote: Hold, context: int, limits: list[str] | None, expected: int
) -> None:
    """Source: 114,688 tokens of one film in a log of Qwen2.5-VL-7B for 128,000 tokens."""
    more = {"encoder_limits": limits} if limits else {}
    assert tokens(quote, **QWEN25, context_tokens=context, **more) == expected


def test_a_film_takes_what_a_start_without_a_limit_ran_out_of(quote: Hold) -> None:
    """Source: that log, 0.22 of 79.15 GiB less 15.67 of weights and 0.53 of graphs, 14.28 below nothing."""
    held = quote(**QWEN25, context_tokens=128_000)
    assert gib(held, "encoder", "activations", "sampler") == pytest.approx(15.2, rel=0.12)


@pytest.mark.parametrize(
    "model, version, expected",
    [
        # A film counts from 0.10.2 on by the longest sequence, before that by all limits together.
        ("qwen2.5-vl-7b-instruct", "0.9.2", 16384),
        ("qwen2.5-vl-7b-instruct", "0.10.2", 114688),
        # 12,288 tokens of a film are fewer than those of a picture.
        ("qwen3-vl-8b-instruct", "0.13.0", 16384),
        ("qwen3.6-27b", "0.24.0", 16384),
        # 32 frames of 70 tokens and 8 words.
        ("gemma-4-e4b-it", "0.20.0", 2496),
    ],
)
def test_a_release_profiles_films_of_its_own_size(quote: Hold, model: str, version: str, expected: int) -> None:
    """Source: 2,496 tokens of one film in a log of Gemma-4-E4B, 16,384 of one picture in those of Qwen3.6."""
    asked = {"model": model, "gpu": "a100-sxm-80gb", "engine_version": version, "context_tokens": 128_000}
    assert tokens(quote, **asked, max_batched_tokens=2048) == expected


@pytest.mark.parametrize("limit, sequences, expected", [(1, 5, 4900), (2, 5, 8192), (1, 256, 8192)])
def test_few_items_of_few_sequences_are_less_than_a_batch(
    quote: Hold, limit: int, sequences: int, expected: int
) -> None:
    """Source: a log of Qwen3-VL-8B: 1,003,520 pixels of 32 x 32 a token are 980, of which 8,192 tokens hold 8."""
    asked = {**QWEN3, "encoder_image_pixels": 1_003_520, "encoder_limits": [f"image={limit}"]}
    assert tokens(quote, **asked, max_sequences_limit=sequences) == expected


def test_that_start_leaves_the_cache_that_it_printed(quote: Hold) -> None:
    """Source: the same log on a card of 48 GB; 22.46 GiB of cache, 163,568 tokens."""
    asked = {**QWEN3, "encoder_image_pixels": 1_003_520, "encoder_limits": ["image=1"], "memory_utilization": 0.85}
    held = quote(**asked, max_sequences_limit=5)
    assert held.rank.pool_bytes / GIB == pytest.approx(22.46, rel=0.03)


def test_limits_that_a_batch_never_reaches_change_nothing(quote: Hold) -> None:
    plain = quote(**GEMMA)
    for limits in (["image=1"], ["image=2", "video=0"], ["image=16", "audio=0"]):
        assert quote(**GEMMA, encoder_limits=limits).rank == plain.rank
    # 4 sequences of 2 pictures of 256 tokens.
    assert tokens(quote, **GEMMA, max_sequences_limit=4, encoder_limits=["image=2"]) == 2048


def test_a_smaller_picture_is_profiled_in_place_of_the_largest(quote: Hold) -> None:
    """512 / 32 squared tokens of Qwen3.5; pictures that are brought to one size stay it, films were never asked."""
    asked = {"model": "qwen3.5-9b", "gpu": "l40s", "engine_version": "0.24.0", "max_batched_tokens": 8192}
    assert tokens(quote, **asked, encoder_limits=["image=2@512x512", "video=0"]) == 256
    assert tokens(quote, **GEMMA, encoder_limits=["image=2@512x512"]) == 8192
    film = {**QWEN25, "context_tokens": 128_000}
    assert tokens(quote, **film, encoder_limits=["image=2@448x448"]) == 7 * 16384
    assert tokens(quote, **film, encoder_limits=["image=2@448x448", "video=0"]) == 256


def test_pixels_of_pictures_are_those_of_frames(quote: Hold) -> None:
    """1,003,520 pixels of 28 x 28 are 1,280 tokens, and seven such pairs of frames a film."""
    asked = {**QWEN25, "context_tokens": 128_000, "encoder_image_pixels": 1_003_520}
    assert tokens(quote, **asked) == 7 * 1280
    assert tokens(quote, **asked, encoder_limits=PICTURES) == 2048


def test_an_encoder_that_is_not_profiled_is_loaded_all_the_same(quote: Hold) -> None:
    seen, skipped = quote(**QWEN25), quote(**QWEN25, encoder_profiling=False)
    assert skipped.rank.weight_bytes == seen.rank.weight_bytes
    assert "encoder" not in {part.name for part in skipped.parts}
    assert skipped.rank.pool_bytes > seen.rank.pool_bytes


def test_limits_of_nothing_are_those_of_a_text_model(quote: Hold) -> None:
    for asked in (QWEN25, QWEN3, GEMMA):
        nothing = ["image=0"] if asked is GEMMA else ["image=0", "video=0"]
        assert quote(**asked, encoder_limits=nothing).rank == quote(**asked, encoder_budget_tokens=0).rank


def test_one_encoder_of_two_is_left_out_alone(quote: Hold, shelf: Shelf) -> None:
    """Source: _mark_tower_model of gemma4_mm.py, apart for sounds."""
    asked = {"model": "gemma-4-e4b-it", "gpu": "h100-sxm-80gb", "engine_version": "0.24.0"}
    modules = shelf.model("gemma-4-e4b-it").architecture.modules
    sounds = sum(m.elements * m.count for m in modules if m.kind is ModuleKind.AUDIO)
    both, pictures = (quote(**asked, **more).rank for more in ({}, {"encoder_limits": ["audio=0"]}))
    assert both.weight_bytes - pictures.weight_bytes == 2 * sounds


def test_an_encoder_that_stands_whole_is_held_on_every_rank(quote: Hold, shelf: Shelf) -> None:
    asked: dict[str, Any] = {"model": "qwen3-vl-235b-a22b-instruct", "gpu": "h200-sxm-141gb"}
    asked |= {"engine_version": "0.20.0", "max_batched_tokens": 2048, "max_sequences_limit": 8}
    modules = shelf.model("qwen3-vl-235b-a22b-instruct").architecture.modules
    towers = (m for m in modules if m.kind is ModuleKind.VISION and m.shard is not Shard.REPLICATED)
    divided = sum(m.elements * m.count for m in towers)
    shared, whole = (quote(**asked, tensor_parallel=4, encoder_data_parallel=on) for on in (False, True))
    # Three quarters of what each of four ranks had a quarter of, in 16 bits; and one picture is one rank's.
    added = whole.rank.weight_bytes - shared.rank.weight_bytes
    assert added == pytest.approx(2 * divided * 3 / 4, rel=0.001)
    assert gib(whole, "encoder") > gib(shared, "encoder")
    alone = [quote(**{**asked, "model": "qwen3-vl-8b-instruct"}, encoder_data_parallel=on).rank for on in (False, True)]
    assert alone[0] == alone[1]


def test_an_encoder_that_cannot_stand_whole_is_divided(quote: Hold) -> None:
    """Source: gemma3_mm.py does not support it, so that the engine falls back."""
    assert quote(**GEMMA, tensor_parallel=2, encoder_data_parallel=True).rank == quote(**GEMMA, tensor_parallel=2).rank


@pytest.mark.parametrize(
    "asked, reason",
    [
        ({**QWEN25, "model": "glm-4.5v", "tensor_parallel": 8, "encoder_limits": ["video=0"]}, "the largest image of"),
        ({**QWEN3, "engine_version": "0.11.0", "encoder_limits": ["image=0"]}, "the largest video of"),
        ({**QWEN25, "model": "mistral-small-3.1-24b-instruct-2503", "encoder_limits": ["image=1"],
          "max_sequences_limit": 4, "max_batched_tokens": 8192}, "4 sequences with 1 each"),
        ({**QWEN25, "encoder_limits": ["video=1@512x512"], "context_tokens": 65536}, "a video of 512 x 512"),
        ({**QWEN25, "model": "mistral-small-3.1-24b-instruct-2503", "encoder_limits": ["image=1@64x64"]},
          "an image of"),
        ({**GEMMA, "encoder_image_pixels": 10**6}, "makes of so many pixels"),
        ({**QWEN25, "engine_version": "0.9.2", "encoder_data_parallel": True}, "was not read of this release"),
        ({**QWEN25, "engine_version": "0.7.3", "encoder_limits": ["image=4"]}, "the older core"),
    ],
)  # fmt: skip
def test_what_cannot_be_told_is_refused(quote: Hold, asked: dict[str, Any], reason: str) -> None:
    with pytest.raises(NotSupported) as refused:
        quote(**asked)
    assert reason in refused.value.faults[0].detail


def test_a_budget_is_the_way_out(quote: Hold) -> None:
    asked = {**QWEN25, "model": "glm-4.5v", "tensor_parallel": 8, "encoder_limits": ["video=0"]}
    assert tokens(quote, **asked, encoder_budget_tokens=4096) == 4096


@pytest.mark.parametrize(
    "entry",
    ["image", "image=-1", "image=2@512", "Image=1", "image=2@x", "image=1e3", "image=1@0x9", "image=1@9x0", "video=2"],
)
def test_a_limit_that_is_none_is_refused(quote: Hold, entry: str) -> None:
    with pytest.raises(ValidationError) as refused:
        quote(**QWEN25, encoder_limits=["video=1", entry])
    assert refused.value.faults[0].pointer == "/encoder_limits/1"


@pytest.mark.parametrize(
    "modality, close", [("images", ("image",)), ("vidoe", ("video",)), ("vision_chunks", ("vision_chunk",))]
)
@pytest.mark.parametrize("model", ["qwen2.5-vl-7b-instruct", "llama-3.1-8b-instruct"])
def test_a_modality_that_nothing_takes_is_refused_with_the_nearest(
    quote: Hold, model: str, modality: str, close: tuple[str, ...]
) -> None:
    with pytest.raises(ValidationError, match="these are: image, video, audio, vision_chunk") as refused:
        quote(**{**QWEN25, "model": model}, encoder_limits=["audio=1", f"{modality}=2"])
    assert refused.value.faults == (Fault("/encoder_limits/1", refused.value.faults[0].detail, close),)


def test_what_is_asked_of_encoders_changes_nothing_of_a_model_without_any(quote: Hold) -> None:
    asked = {"model": "qwen3-8b", "gpu": "h100-sxm-80gb"}
    media = {"encoder_limits": ["image=0"], "encoder_image_pixels": 100, "encoder_profiling": False}
    assert quote(**asked, **media, encoder_data_parallel=True).rank == quote(**asked).rank


UNREAD = {"glm4v", "glm4v_moe", "internvl_chat", "llava_onevision", "minimax_m3_vl", "voxtral"}
COUNTS = st.sampled_from([0, 1, 2, 3, 8, 999])
STARTS = st.fixed_dictionaries(
    {
        "model": st.sampled_from(["qwen2.5-vl-7b-instruct", "qwen3-vl-8b-instruct", "gemma-3-4b-it", "gemma-4-e4b-it"]),
        "max_sequences_limit": st.sampled_from([1, 4, 64, 1024]),
        "max_batched_tokens": st.sampled_from([2048, 8192, 65536]),
        "context_tokens": st.sampled_from([2048, 40_000, 128_000]),
    }
)
LIMITS = st.fixed_dictionaries({"image": COUNTS, "video": COUNTS, "audio": COUNTS})


@settings(max_examples=60, deadline=None)
@given(start=STARTS, counts=LIMITS)
def test_a_smaller_limit_never_takes_more_memory(quote: Hold, start: dict[str, Any], counts: dict[str, int]) -> None:
    """None is dropped: without pictures several films may be profiled, which together are larger than one picture was.

    Nothing is compiled either: a model that is told of no pictures embeds words in what is, at a price of its own.
    """

    def room(**limits: int) -> int:
        entries = [f"{name}={most}" for name, most in limits.items()]
        asked = {**start, "gpu": "h200-sxm-141gb", "engine_version": "0.21.0", "enforce_eager": True}
        return quote(**asked, encoder_limits=entries).rank.room_bytes

    held, halves = room(**counts), {name: most // 2 for name, most in counts.items() if most > 1}
    assert room() <= held
    assert all(room(**{**counts, name: half}) >= held for name, half in halves.items())


def test_a_modality_that_is_left_out_gives_way_to_one_with_more_items(quote: Hold) -> None:
    """get_modality_with_max_tokens looks at one item of each, 16,384 tokens of a picture and 12,288 of a film."""
    asked = {**QWEN3, "context_tokens": 40_000, "max_batched_tokens": 65_536, "max_sequences_limit": 1}
    assert tokens(quote, **asked, encoder_limits=["image=1", "video=2"]) == 16_384
    assert tokens(quote, **asked, encoder_limits=["image=0", "video=2"]) == 2 * 12_288


def test_every_family_of_the_catalog_with_an_encoder_is_read_or_listed_here(engine: VllmEngine, shelf: Shelf) -> None:
    """What a start profiles of those listed is quoted by what encoders take otherwise."""
    architectures = [shelf.model(path.stem).architecture for path in CATALOG.glob("models/*.yaml")]
    seen = {each.model_type for each in architectures if TOWERS & {module.kind for module in each.modules}}
    rules = engine.release(None).cores["v1"]
    assert seen - rules.media.families.keys() - rules.constants.undescribed.keys() == UNREAD
