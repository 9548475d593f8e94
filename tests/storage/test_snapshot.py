import subprocess
import sys

import pytest
from sqlalchemy import Engine, event

from service.domain.catalog import CatalogKind, Entry
from service.domain.errors import (
    CatalogFactError,
    NotSupported,
    QuoteError,
    UnknownArchitecture,
    UnknownGpu,
    UnknownModel,
    ValidationError,
)
from service.storage import values
from service.storage.canonical import compact_json
from service.storage.catalog import CatalogDelta, Change, StoredEntry
from service.storage.catalog_yaml import read_yaml
from service.storage.migrations import data_folder
from service.storage.snapshot import Snapshot, SnapshotKeeper
from service.storage.values import ValueCache
from tests.storage.entries import GPU, MODEL, gpu_change, gpu_facts, model_change, model_facts, store

DTYPE_FACTS = {"id": "bf16", "aliases": ["bfloat16"], "weight": {"element_bits": 16, "matmul_type": ["bf16"]}}


def delta(revision: int, *changes: Change) -> CatalogDelta:
    entries = [
        StoredEntry(change.kind, change.id, compact_json(change.facts).encode(), revision)
        for change in changes
        if change.facts is not None
    ]
    return CatalogDelta(revision, tuple(entries), tuple((c.kind, c.id) for c in changes if c.facts is None))


def snapshot(*changes: Change) -> Snapshot:
    return Snapshot.empty().advanced(delta(1, *changes))


def refusal(of: Snapshot, kind: CatalogKind, name: str) -> QuoteError:
    with pytest.raises(QuoteError) as caught:
        of.facts(kind, name, "/here")
    return caught.value


def test_an_empty_catalog_is_at_revision_zero() -> None:
    assert (Snapshot.empty().revision, Snapshot.empty().ids(MODEL)) == (0, ())


def test_a_device_is_read_with_the_revision_it_changed_in() -> None:
    found = snapshot(gpu_change()).advanced(delta(2, gpu_change("t4")))

    assert (found.revision, found.gpu("a100").revision, found.gpu("t4").revision) == (2, 1, 2)
    assert found.gpu("a100").advertised_bytes == 80_000_000_000


@pytest.mark.parametrize("name", ["tiny", "TINY", "someone/Tiny-hf", "tiny-hf", "Tiny Model"])
def test_a_model_answers_to_all_its_names(name: str) -> None:
    found = snapshot(model_change(hub_id="someone/Tiny-hf", aliases=["tiny model"]))

    assert found.model(name).id == "tiny"


def test_a_number_format_answers_to_the_engines_spelling() -> None:
    assert snapshot(Change(CatalogKind.DTYPE, "bf16", DTYPE_FACTS)).format("bfloat16").name == "bf16"


def test_an_engine_is_read_as_its_policy() -> None:
    facts = read_yaml(data_folder("catalog") / "engines" / "none.yaml")

    assert "model" in snapshot(Change(CatalogKind.ENGINE, "none", facts)).engine("none").takes


@pytest.mark.parametrize(
    "kind, error",
    [
        (MODEL, UnknownModel),
        (GPU, UnknownGpu),
        (CatalogKind.DTYPE, ValidationError),
        (CatalogKind.ENGINE, NotSupported),
        (CatalogKind.INSTANCE, ValidationError),
    ],
)
def test_an_unknown_name_is_refused_where_it_was_asked(kind: CatalogKind, error: type[QuoteError]) -> None:
    found = refusal(snapshot(Change(kind, "llama-2-7b", {"id": "llama-2-7b"})), kind, "lama-2-7b")

    (fault,) = found.faults
    assert type(found) is error
    assert (fault.pointer, fault.nearest) == ("/here", ("llama-2-7b",))
    assert "'lama-2-7b'" in fault.detail
    assert "Did you mean 'llama-2-7b'?" in fault.detail


def test_a_name_with_two_meanings_is_refused_with_both() -> None:
    both = snapshot(model_change("b", hub_id="x/Tiny"), model_change("a", hub_id="y/Tiny"))

    (fault,) = refusal(both, MODEL, "tiny").faults

    assert fault.nearest == ("a", "b")
    assert "more than one model" in fault.detail


def test_a_very_long_name_is_not_repeated_whole() -> None:
    assert len(refusal(snapshot(model_change()), MODEL, "x" * 100_000).detail) < 200


def test_a_model_whose_architecture_nobody_reads_is_refused_as_such() -> None:
    config = {"model_type": "of-tomorrow"}

    with pytest.raises(UnknownArchitecture):
        snapshot(model_change(config=config)).model("tiny")


def test_an_entry_that_cannot_be_read_is_refused_each_time() -> None:
    broken = snapshot(Change(GPU, "a100", {"id": "a100"}))

    for _ in range(2):
        with pytest.raises(CatalogFactError):
            broken.gpu("a100")


@pytest.mark.parametrize(
    "facts", [b"[1]", b"null", b"7", b'"a100"', b"", b"{", b'{"aliases": [5]}', b'{"memory": 7}', b'{"aliases": 7}']
)
def test_an_entry_that_is_not_one_hides_no_other(facts: bytes, caplog: pytest.LogCaptureFixture) -> None:
    broken = CatalogDelta(2, (StoredEntry(GPU, "a100", facts, 2), StoredEntry(MODEL, "tiny", b"[]", 2)), ())
    before = snapshot(gpu_change(aliases=["big"]), gpu_change("t4"), model_change())
    before.gather_names()

    after = before.advanced(broken).advanced(delta(3, gpu_change("l4")))

    assert (after.ids(GPU), after.ids(MODEL)) == (("l4", "t4"), ())
    assert refusal(after, GPU, "big").faults[0].nearest == ()
    assert "catalog entry left out: gpu a100 (" in caplog.text


def test_an_entry_that_was_left_out_is_taken_once_it_can_be_read() -> None:
    broken = Snapshot.empty().advanced(CatalogDelta(1, (StoredEntry(GPU, "a100", b"[1]", 1),), ()))

    assert broken.advanced(delta(2, gpu_change())).gpu("a100").revision == 2


def test_ids_are_in_order() -> None:
    assert snapshot(gpu_change("t4"), gpu_change("a100"), model_change()).ids(GPU) == ("a100", "t4")


def test_facts_are_the_callers_own() -> None:
    found = snapshot(gpu_change())

    first, second = found.facts(GPU, "A100"), found.facts(GPU, "A100")

    assert first == second == gpu_facts()
    assert first is not second


def test_an_entry_carries_its_revision() -> None:
    assert snapshot(model_change()).entry(MODEL, "tiny") == Entry(MODEL, "tiny", model_facts(), 1)


def test_a_value_is_built_once_for_all_its_names() -> None:
    found = snapshot(model_change(aliases=["small"]))

    assert found.model("tiny") is found.model("small") is found.model("tiny")


def test_values_outlive_a_refresh_that_did_not_touch_them() -> None:
    before = snapshot(model_change("tiny"), model_change("other"))
    kept, changed = before.model("tiny"), before.model("other")

    after = before.advanced(delta(2, model_change("other", name="renamed")))

    assert after.model("tiny") is kept
    assert after.model("other") is not changed
    assert after.model("other").name == "renamed"


def test_a_snapshot_never_changes() -> None:
    before = snapshot(gpu_change("a100", aliases=["big"]), gpu_change("t4"))

    before.advanced(delta(2, Change(GPU, "t4", None), gpu_change("a100", advertised_bytes=1), gpu_change("l4")))

    assert (before.revision, before.ids(GPU), before.gpu("big").advertised_bytes) == (1, ("a100", "t4"), 80_000_000_000)


def test_a_deleted_entry_and_its_names_are_gone() -> None:
    after = snapshot(gpu_change("t4", aliases=["tesla t4"])).advanced(delta(2, Change(GPU, "t4", None)))

    for name in ("t4", "tesla t4"):
        with pytest.raises(UnknownGpu):
            after.gpu(name)


def test_a_name_can_move_to_another_entry() -> None:
    before = snapshot(gpu_change("a", aliases=["fast"]), gpu_change("b"))

    after = before.advanced(delta(2, gpu_change("a", aliases=[]), gpu_change("b", aliases=["fast"])))

    assert after.gpu("fast").id == "b"


def test_suggestions_follow_the_catalog() -> None:
    before = snapshot(gpu_change("h100-sxm"), gpu_change("t4"))
    before.gather_names()

    after = before.advanced(delta(2, Change(GPU, "h100-sxm", None), gpu_change("h100-pcie", aliases=["hopper card"])))

    assert refusal(after, GPU, "h100-sxn").faults[0].nearest == ("h100-pcie",)
    assert refusal(after, GPU, "hoper card").faults[0].nearest == ("h100-pcie",)
    assert refusal(before, GPU, "h100-sxn").faults[0].nearest == ("h100-sxm",)


def test_the_names_of_large_kinds_alone_are_gathered_ahead() -> None:
    catalog = snapshot(gpu_change("a"), gpu_change("b"), model_change())

    catalog.gather_names(least=2)

    gathered = {kind for kind, entries in catalog._kinds.items() if entries.nearest is not None}
    assert gathered == {GPU}


def test_values_read_ahead_are_those_that_questions_find(monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = snapshot(gpu_change("a"), gpu_change("b"), model_change("broken", config=None))

    catalog.read_values()

    monkeypatch.setattr(values, "parsed", None)
    assert [catalog.gpu(name).id for name in "ab"] == ["a", "b"]


def test_a_catalog_of_more_values_than_are_kept_waits_for_its_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = snapshot(gpu_change("a"), gpu_change("b"))
    monkeypatch.setattr("service.storage.snapshot.VALUES_KEPT", 1)

    catalog.read_values()

    assert catalog._asked[GPU] == {}


def test_kinds_without_a_change_are_shared() -> None:
    before = snapshot(gpu_change(), model_change())

    assert before.advanced(delta(2, gpu_change(name="renamed"))).ids(MODEL) is before.ids(MODEL)


@pytest.mark.parametrize("config", [None, []])
def test_a_model_whose_config_is_no_object_is_refused_when_it_is_asked_for(config: object) -> None:
    with pytest.raises(CatalogFactError, match="its config is no object"):
        snapshot(model_change("odd", config=config)).model("odd")


def test_only_so_many_values_are_kept() -> None:
    cache = ValueCache(kept=2)
    entries = {name: StoredEntry(GPU, name, b"{}", 1) for name in "abc"}
    built: list[str] = []

    def build(entry: Entry) -> Entry:
        built.append(entry.id)
        return entry

    for name in "abacacb":
        cache.get(entries[name], build)

    # c pushes out b, the longest unused, and b then has to be built again.
    assert built == ["a", "b", "c", "b"]


def test_only_so_many_asked_names_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.storage.snapshot._NAMES_KEPT", 2)
    found = snapshot(model_change(aliases=["a", "b", "c"]))

    for name in ("a", "b", "c", "A", "B", "C"):
        found.model(name)

    assert len(found._asked[MODEL]) <= 2


def test_answering_imports_nothing_that_only_loading_needs() -> None:
    code = "import sys, service.storage.snapshot, service.storage.migrations; print(*sys.modules)"
    modules = set(subprocess.check_output([sys.executable, "-c", code], text=True).split())

    assert {"alembic", "jsonschema", "yaml"} & modules == set()


def test_looking_up_runs_no_sql(engine: Engine) -> None:
    store(engine, gpu_change(), model_change())
    keeper = SnapshotKeeper(engine)
    keeper.refresh()
    statements: list[str] = []
    event.listen(engine, "before_cursor_execute", lambda *call: statements.append(call[2]))

    for _ in range(100):
        keeper.current().model("tiny")
        keeper.current().gpu("a100")

    assert statements == []
