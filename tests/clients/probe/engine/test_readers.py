"""What running engines say of their capacity, release by release, and what they say in vain."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvquote_probe.engine.detect import READERS, detected, read_engine
from kvquote_probe.engine.site import EngineError, Page, Site
from kvquote_probe.engine.telling import Told
from kvquote_probe.readings import Reading
from kvquote_probe.rows import encoded, make_row
from service.api.schemas.measurement_rows import read_row
from tests.clients.probe.engine import fake_engine as troubles
from tests.clients.probe.engine.fake_engine import FakeEngine, Handler, fake_engine
from tests.clients.probe.engine.servers import (
    LLAMA_CPP_B5200,
    LLAMA_CPP_B7400,
    RELEASES,
    SECRETS,
    SGLANG_0_4,
    SGLANG_0_5,
    TGI_2_0,
    TRITON,
    TRTLLM_SERVE_0_17,
    VLLM_0_11,
    VLLM_0_24,
    Pages,
    Release,
    served,
)

PROBE = "7f6d1f8e-2f0e-4a53-8f0b-0c4f6f1f9b11"
EACH = pytest.mark.parametrize("release", list(RELEASES.values()), ids=list(RELEASES))


@pytest.fixture(scope="module")
def shared() -> Iterator[FakeEngine]:
    with fake_engine() as server:
        yield server


@pytest.fixture
def server(shared: FakeEngine) -> FakeEngine:
    shared.pages, shared.trouble = {}, None
    shared.asked.clear()
    shared.tokens.clear()
    return shared


def told(release: Release, **more: Any) -> Told:  # noqa: ANN401 - parts of any type
    return Told(**{"uniform": release.uniform, **more})


def readings(server: FakeEngine, pages: Pages, given: Told, engine: str | None = None) -> list[Reading]:
    server.pages = pages
    site = Site(server.url)
    try:
        return read_engine(site, given, engine)
    finally:
        site.close()


def changed(release: Release, path: str, **more: object) -> Release:
    return release._replace(pages={**release.pages, path: {**release.pages[path], **more}})


@EACH
def test_a_release_is_recognised_and_read(server: FakeEngine, release: Release) -> None:
    reading = readings(server, served(release), told(release))[0]

    assert reading.kind == "engine_capacity"
    assert reading.values == release.values
    assert reading.setup == release.setup
    assert (reading.software or {}).get("engine") == release.engine
    assert (reading.software or {}).get("engine_version") == release.version
    assert reading.gpu is None


def test_the_one_card_of_this_machine_is_not_all_cards_of_several(server: FakeEngine) -> None:
    card = {"name": "NVIDIA GB10", "count": 1}
    alone, split = (
        readings(server, served(VLLM_0_24), told(VLLM_0_24, gpu=card, setup={"tensor_parallel": ranks}))[0].gpu
        for ranks in (1, 2)
    )

    assert (alone, split) == (card, {"name": "NVIDIA GB10"})


@EACH
def test_its_row_is_one_that_the_service_takes_and_names_nobody(server: FakeEngine, release: Release) -> None:
    for reading in readings(server, served(release), told(release, gpu={"name": "NVIDIA L4"})):
        text = encoded(make_row(reading, PROBE))

        assert read_row(json.loads(text), 3).faults == []
        assert [secret for secret in SECRETS if secret in text] == []


@EACH
def test_no_page_is_asked_for_twice(server: FakeEngine, release: Release) -> None:
    readings(server, served(release), told(release))

    assert len(server.asked) == len(set(server.asked))


@EACH
def test_a_named_engine_is_read_without_looking_for_others(server: FakeEngine, release: Release) -> None:
    reading = readings(server, served(release), told(release), release.engine)[0]

    assert reading.values == release.values
    assert not {"/info", "/props", "/get_server_info", "/server_info"} & set(server.asked) - set(release.pages) or (
        release.engine == "sglang"
    )


TROUBLES: dict[str, tuple[Callable[[Handler], None], str]] = {
    "500": (troubles.status(500), "HTTP 500"),
    "503": (troubles.status(503), "HTTP 503"),
    "429": (troubles.status(429), "HTTP 429"),
    "401": (troubles.status(401), "KVQUOTE_ENGINE_TOKEN"),
    "404": (troubles.status(404), "is none of"),
    "a redirect": (troubles.status(302, {"Location": "http://example.com/"}), "is none of"),
    "HTML": (troubles.page, "is none of"),
    "a reset": (troubles.reset, "could not be read"),
    "half a reply": (troubles.half_a_reply, "could not be read"),
    "no end": (troubles.endless, "MiB"),
}


@pytest.mark.parametrize("trouble, said", list(TROUBLES.values()), ids=list(TROUBLES))
def test_trouble_is_said_in_a_sentence(server: FakeEngine, trouble: Callable[[Handler], None], said: str) -> None:
    server.trouble = trouble

    with pytest.raises(EngineError, match=said):
        detected(Site(server.url))


def test_a_server_that_dribbles_does_not_hold_the_probe(server: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvquote_probe.engine.site.PAGE_SECONDS", 0.2)
    server.trouble = troubles.dribbling

    with pytest.raises(EngineError, match="has not answered whole"):
        Site(server.url).page("/metrics")


def test_where_nothing_listens_it_is_said() -> None:
    with pytest.raises(EngineError, match="nothing listens there"):
        detected(Site("http://127.0.0.1:9"))


@pytest.mark.parametrize("url", ["", "localhost:8000", "ftp://x", "http://"])
def test_what_is_no_address_is_said(url: str) -> None:
    with pytest.raises(EngineError, match="is no address"):
        Site(url)


def test_the_engines_token_goes_to_the_engine(server: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVQUOTE_ENGINE_TOKEN", "sk-1")

    readings(server, served(VLLM_0_24), Told())

    assert server.tokens == {"Bearer sk-1"}


def test_no_other_token_goes_to_an_engine(server: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVQUOTE_TOKEN", "kvq_1")

    readings(server, served(VLLM_0_24), Told())

    assert server.tokens == {None}


@pytest.mark.parametrize("release", [VLLM_0_11, TRITON, TRTLLM_SERVE_0_17], ids=["vllm", "triton", "trtllm"])
def test_blocks_of_a_model_that_may_mix_caches_are_not_taken_for_tokens(server: FakeEngine, release: Release) -> None:
    with pytest.raises(EngineError, match="--uniform-cache"):
        readings(server, served(release), Told())
    with pytest.raises(EngineError, match="--uniform-cache"):
        readings(server, served(release), Told(uniform=False))


def test_the_service_can_tell_that_a_models_layers_cache_alike(server: FakeEngine) -> None:
    given = Told(is_uniform=lambda model: model == "Qwen2.5-7B-Instruct")

    assert readings(server, served(VLLM_0_11), given)[0].values == VLLM_0_11.values


def test_what_a_person_says_of_the_setup_holds(server: FakeEngine) -> None:
    given = Told(setup={"model": "llama-3.1-8b", "tensor_parallel": 2})

    setup = readings(server, served(VLLM_0_24), given)[0].setup or {}

    assert (setup["model"], setup["tensor_parallel"], setup["kv_dtype"]) == ("llama-3.1-8b", 2, "fp8_e4m3")


def test_blocks_set_by_hand_say_nothing_of_the_card(server: FakeEngine) -> None:
    page = VLLM_0_24.pages["/metrics"].replace('override="None"', 'override="27837"')

    with pytest.raises(EngineError, match="set by hand"):
        readings(server, served(VLLM_0_24._replace(pages={**VLLM_0_24.pages, "/metrics": page})), Told())


@pytest.mark.parametrize("cap", [912_345, 912_400])
def test_tokens_set_by_hand_say_nothing_of_the_card(server: FakeEngine, cap: int) -> None:
    capped = changed(SGLANG_0_4, "/get_server_info", max_total_tokens=cap, page_size=64)

    with pytest.raises(EngineError, match="set by hand"):
        readings(server, served(capped), Told())


def test_a_cap_that_was_not_reached_is_no_matter(server: FakeEngine) -> None:
    capped = changed(SGLANG_0_4, "/get_server_info", max_total_tokens=2_000_000)

    assert readings(server, served(capped), Told())[0].values == SGLANG_0_4.values


def test_each_replica_of_another_capacity_has_a_row(server: FakeEngine) -> None:
    lines = [
        f'vllm:cache_config_info{{block_size="16",engine="{n}",kv_cache_size_tokens="{tokens}"}} 1.0\n'
        for n, tokens in enumerate((97_503, 53_149, 97_503))
    ]
    release = VLLM_0_24._replace(pages={**VLLM_0_24.pages, "/metrics": "".join(lines)})

    found = readings(server, served(release), Told())

    assert [one.values["kv_capacity_tokens"] for one in found] == [97_503, 53_149]
    assert {(one.setup or {})["data_parallel"] for one in found} == {3}
    ranks = readings(server, served(SGLANG_0_5), Told())
    assert [one.values["kv_capacity_tokens"] for one in ranks] == [640_000, 624_384]


def test_a_replica_that_is_told_of_twice_counts_once(server: FakeEngine) -> None:
    page = VLLM_0_24.pages["/metrics"] * 2

    (found,) = readings(server, served(VLLM_0_24._replace(pages={**VLLM_0_24.pages, "/metrics": page})), Told())

    assert (found.values, found.setup) == (VLLM_0_24.values, VLLM_0_24.setup)


def test_two_things_said_of_one_replica_are_refused(server: FakeEngine) -> None:
    page = VLLM_0_24.pages["/metrics"] + VLLM_0_24.pages["/metrics"].replace("197283", "97283")

    with pytest.raises(EngineError, match="two things of engine 0"):
        readings(server, served(VLLM_0_24._replace(pages={**VLLM_0_24.pages, "/metrics": page})), Told())


def test_two_capacities_of_one_pool_are_refused(server: FakeEngine) -> None:
    torn = changed(SGLANG_0_4, "/get_server_info", max_total_num_tokens=900_000)

    with pytest.raises(EngineError, match="two capacities"):
        readings(server, served(torn), Told())


def test_a_pool_of_zero_bytes_is_one_that_is_not_told(server: FakeEngine) -> None:
    usage = {"kvcache": 0, "weight": 42.0, "token_capacity": 912_345}
    zero = changed(SGLANG_0_4, "/get_server_info", internal_states=[{"memory_usage": usage}])

    assert "kv_cache_bytes" not in readings(server, served(zero), Told())[0].values


def test_slots_that_may_share_a_cache_are_not_added_up(server: FakeEngine) -> None:
    newer = changed(LLAMA_CPP_B5200, "/props", build_info="b7400-abcdef01")

    with pytest.raises(EngineError, match="--kv-unified or --no-kv-unified"):
        readings(server, served(newer), Told())
    for unified, tokens in ((True, 8192), (False, 32_768)):
        found = readings(server, served(newer), Told(unified=unified))[0]
        assert found.values == {"kv_capacity_tokens": tokens}


def test_a_sleeping_server_holds_no_cache(server: FakeEngine) -> None:
    with pytest.raises(EngineError, match="asleep"):
        readings(server, served(changed(LLAMA_CPP_B7400, "/props", is_sleeping=True)), Told())


def test_the_constant_of_models_without_paging_is_no_capacity(server: FakeEngine) -> None:
    with pytest.raises(EngineError, match="without paging"):
        readings(server, served(changed(TGI_2_0, "/info", max_batch_total_tokens=16_000)), Told())


def test_statistics_that_somebody_drained_are_said(server: FakeEngine) -> None:
    drained = TRTLLM_SERVE_0_17._replace(pages={**TRTLLM_SERVE_0_17.pages, "/metrics": []})

    with pytest.raises(EngineError, match="send it a request"):
        readings(server, served(drained), Told())


HOSTILE = [0, -1, 1e300, 10**400, float("nan"), float("inf"), True, "9" * 5000, "1e9", "", None, [], {}, "12.5", 3.5]


@pytest.mark.parametrize("value", HOSTILE, ids=repr)
def test_numbers_that_cannot_be_are_not_taken(value: object) -> None:
    names = {
        "vllm": ('kv_cache_size_tokens="197283"', f'kv_cache_size_tokens="{value}"'),
        "sglang": ("912345", json.dumps(value)),
        "llama.cpp": ("16384", json.dumps(value)),
        "tgi": ("413984", json.dumps(value)),
        "tensorrt-llm": ("6239", json.dumps(value)),
    }
    for release in (VLLM_0_24, SGLANG_0_4, LLAMA_CPP_B7400, TGI_2_0, TRTLLM_SERVE_0_17):
        before, after = (text.encode() for text in names[release.engine])
        pages = {path: (kind, body.replace(before, after)) for path, (kind, body) in served(release).items()}
        with pytest.raises(EngineError):
            READERS[release.engine](Book(pages), Told(uniform=False))


def test_every_engine_of_the_table_has_two_releases_here() -> None:
    counted = [release.engine for release in RELEASES.values()]

    assert {engine: counted.count(engine) >= 2 for engine in READERS} == dict.fromkeys(READERS, True)


class Book(Site):
    """Pages without a server."""

    def __init__(self, pages: Pages) -> None:
        super().__init__("http://book")
        self._book = pages

    def _fetched(self, path: str) -> Page | None:
        return Page(*self._book[path]) if path in self._book else None


def outcome(pages: Pages, release: Release) -> list[Mapping[str, Any]]:
    """The numbers that are read; none where the engine cannot be read."""
    try:
        found = READERS[release.engine](Book(pages), told(release))
    except EngineError:
        return []
    for one in found:
        assert read_row(json.loads(encoded(make_row(one, PROBE))), 3).faults == []
    return [one.values for one in found]


@EACH
@settings(max_examples=15)
@given(data=st.data())
def test_a_page_that_is_cut_off_anywhere_never_gives_another_number(release: Release, data: st.DataObject) -> None:
    pages = dict(served(release))
    path = data.draw(st.sampled_from(sorted(pages)))
    kind, body = pages[path]
    pages[path] = (kind, body[: data.draw(st.integers(0, len(body) - 1))])

    for values in outcome(pages, release):
        assert any(values.items() <= full.items() for full in outcome(served(release), release))


@EACH
@settings(max_examples=15)
@given(data=st.data())
def test_a_mangled_page_never_gives_a_row_that_the_service_refuses(release: Release, data: st.DataObject) -> None:
    pages = dict(served(release))
    for path in data.draw(st.lists(st.sampled_from(sorted(pages)), min_size=1, unique=True)):
        kind, body = pages[path]
        mangled = bytearray(body)
        flips = st.tuples(st.integers(0, len(body) - 1), st.integers(0, 255))
        for place, byte in data.draw(st.lists(flips, max_size=8)):
            mangled[place] = byte
        pages[path] = (kind, bytes(mangled) * data.draw(st.integers(1, 2)))

    outcome(pages, release)
