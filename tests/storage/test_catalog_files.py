import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import Engine, select, update

from service.domain.catalog import Entry
from service.storage.catalog import Change, current_revision, read_facts
from service.storage.catalog_files import (
    CatalogFilesError,
    LoadReport,
    Problem,
    WaitingModel,
    load,
    read_catalog_files,
    waiting_for_reader,
)
from service.storage.database import reading, writing
from service.storage.tables import AUDIT_EVENT, CATALOG_ENTRY, CATALOG_REVISION
from tests.storage.catalog_folder import CatalogFolder
from tests.storage.entries import GPU, LLAMA_CONFIG, MODEL, gpu_change, gpu_facts, model_facts, store


@pytest.fixture
def folder(tmp_path: Path) -> CatalogFolder:
    return CatalogFolder(tmp_path / "catalog")


def problems(folder: CatalogFolder) -> list[Problem]:
    with pytest.raises(CatalogFilesError) as caught:
        read_catalog_files(folder.path)
    return list(caught.value.problems)


def loaded(engine: Engine, folder: CatalogFolder, **how: bool) -> LoadReport:
    return load(engine, folder.path, "tests", **how)


def counts(report: LoadReport) -> tuple[int, int, int, int]:
    return report.created, report.changed, report.deleted, report.unchanged


def stored_name(engine: Engine, gpu_id: str) -> object:
    with reading(engine) as connection:
        return read_facts(connection, [(GPU, gpu_id)]).get((GPU, gpu_id), {}).get("name")


def test_files_become_entries(folder: CatalogFolder) -> None:
    folder.gpu("a100").model("tiny")

    assert read_catalog_files(folder.path) == [
        Entry(MODEL, "tiny", model_facts("tiny"), 0),
        Entry(GPU, "a100", gpu_facts("a100"), 0),
    ]


def test_what_is_stored_and_no_object_becomes_what_the_files_say(engine: Engine, folder: CatalogFolder) -> None:
    loaded(engine, folder.gpu("a100").gpu("t4"))
    with writing(engine) as connection:
        connection.execute(update(CATALOG_ENTRY).where(CATALOG_ENTRY.c.id == "t4").values(facts=[1]))

    report = loaded(engine, folder)

    assert counts(report) == (0, 1, 0, 1)
    assert stored_name(engine, "t4") == "T4"


_DEEP = f"{'[' * 150}%s{']' * 150}"


@pytest.mark.parametrize(
    "text, detail",
    [
        ("a: &a [*a]", "line 1: a value holds itself"),
        (f"a: {'[' * 500}{']' * 500}", "nested too deeply"),
        (f"a: &a {_DEEP % 1}\nb: &b {_DEEP % '*a'}\n", "nested too deeply"),
        (f"a: &a {_DEEP % 1}\nb: &b {_DEEP % '*a'}\nc: &c {_DEEP % '*b'}\nd: {_DEEP % '*c'}", "nested too deeply"),
        ("a: !!binary aGk=", "line 1: could not determine"),
        ("a: 1e999", "JSON"),
    ],
)
def test_what_no_entry_can_hold_names_its_file(folder: CatalogFolder, text: str, detail: str) -> None:
    (problem,) = problems(folder.gpu("a").text("gpus/c.yaml", text))

    assert problem.file == "gpus/c.yaml"
    assert detail in problem.detail


def test_every_problem_is_named_at_once_with_its_file_and_place(folder: CatalogFolder) -> None:
    folder.gpu("a", advertised_bytes=0).gpu("b", checked="2026-13-01").text("gpus/c.yaml", "id: [")

    assert [(problem.file, problem.pointer) for problem in problems(folder)] == [
        ("gpus/a.yaml", "/memory/advertised_bytes"),
        ("gpus/b.yaml", "/checked"),
        ("gpus/c.yaml", ""),
    ]


def test_a_problem_reads_as_a_sentence(folder: CatalogFolder) -> None:
    folder.gpu("a", advertised_bytes=0)

    (problem,) = problems(folder)

    assert str(problem) == "gpus/a.yaml at /memory/advertised_bytes: 0 is less than the minimum of 1"


def test_of_alternatives_the_nearest_is_explained(folder: CatalogFolder) -> None:
    folder.gpu("a", size={"a": "one"})

    assert [(problem.pointer, problem.detail) for problem in problems(folder)] == [
        ("/size/a", '"one" is not of type integer')
    ]


@pytest.mark.parametrize(
    "size, detail",
    [
        ({"a": [None, True]}, "[null, true] is not of type integer"),
        ({"a": {"b": "c" * 300}}, '{"b": "' + "c" * 33 + "… is not of type integer"),
        ({"b": None}, 'null is not one of 1, true, "x"'),
        ({"c": [True, None]}, "[true, null] is too long"),
        ({"d": 0}, "0 is not of type string or null"),
    ],
)
def test_a_refused_value_is_written_as_json(folder: CatalogFolder, size: object, detail: str) -> None:
    integer, one_of = {"type": "integer"}, {"enum": [1, True, "x"]}
    size_schema = {"properties": {"a": integer, "b": one_of, "c": {"maxItems": 1}, "d": {"type": ["string", "null"]}}}
    folder.schema("gpu", {"properties": {"size": size_schema}})

    assert [problem.detail for problem in problems(folder.gpu("a", size=size))] == [detail]


def test_an_entry_is_named_as_its_file(folder: CatalogFolder) -> None:
    folder.gpu("a100", id="a200")

    assert [str(problem) for problem in problems(folder)] == [
        "gpus/a100.yaml at /id: is 'a200', but the file is named 'a100'."
    ]


def test_an_id_that_is_no_text_is_written_as_json(folder: CatalogFolder) -> None:
    folder.gpu("a100", id=[None])

    assert [problem.detail for problem in problems(folder)] == ["is [null], but the file is named 'a100'."]


@pytest.mark.parametrize("gpu_id", ["A100", "a 100", "-a", "é", "a" * 201])
def test_an_id_is_a_slug(folder: CatalogFolder, gpu_id: str) -> None:
    folder.gpu(gpu_id, name="A card")

    assert [problem.pointer for problem in problems(folder)] == ["/id"]


@pytest.mark.parametrize("more", [{"aliases": ["A100"]}, {"aliases": ["Big"]}, {"hub_id": "Owner/Model"}])
def test_a_name_leads_to_one_entry_of_its_kind(folder: CatalogFolder, more: dict[str, object]) -> None:
    folder.model("a100", aliases=["big"], hub_id="owner/model").model("b200", **more)

    (problem,) = problems(folder)

    assert problem.file == "models/b200.yaml"
    assert "already leads to models/a100.yaml" in problem.detail


def test_kinds_may_share_names(folder: CatalogFolder) -> None:
    folder.model("same", aliases=["alias"]).gpu("same", aliases=["alias"])

    assert len(read_catalog_files(folder.path)) == 2


def test_an_entry_may_repeat_its_own_name(folder: CatalogFolder) -> None:
    folder.model("tiny", aliases=["Tiny"], hub_id="tiny")

    assert len(read_catalog_files(folder.path)) == 1


def test_what_the_schema_allows_must_still_be_readable(folder: CatalogFolder) -> None:
    folder.text("gpus/a.yaml", '{"id": "a", "memory": {"advertised_bytes": 1}}')

    (problem,) = problems(folder)

    assert problem.file == "gpus/a.yaml"
    assert "cannot be read" in problem.detail


def test_a_config_that_contradicts_itself_is_a_problem(folder: CatalogFolder) -> None:
    folder.model("tiny", config={**LLAMA_CONFIG, "num_key_value_heads": 3})

    assert [problem.file for problem in problems(folder)] == ["models/tiny.yaml"]


def test_a_kind_without_a_schema_is_refused(folder: CatalogFolder) -> None:
    folder.text("engines/none.yaml", "id: none")

    assert [str(problem) for problem in problems(folder)] == [
        "engines/none.yaml: There is no schema/engine.json to check the engine files with."
    ]


@pytest.mark.parametrize("name", ["gpu/a.yaml", "gpus/a.yml", "a.yaml", "gpus/more/a.yaml"])
def test_a_file_that_would_be_passed_over_is_a_problem(folder: CatalogFolder, name: str) -> None:
    folder.gpu("t4").text(name, "id: a")

    assert [problem.file for problem in problems(folder)] == [name]


def test_an_empty_folder_is_refused_rather_than_taken_as_the_wish_to_delete_all(folder: CatalogFolder) -> None:
    assert "holds no catalog entries" in str(problems(folder)[0])


def test_a_model_of_an_unknown_architecture_waits_for_its_reader(folder: CatalogFolder) -> None:
    folder.model("tiny").model("later", config={"model_type": "of-tomorrow"})

    assert list(waiting_for_reader(read_catalog_files(folder.path))) == [WaitingModel("later", "of-tomorrow")]


def test_loading_says_what_it_did(engine: Engine, folder: CatalogFolder) -> None:
    folder.gpu("a100").gpu("t4").gpu("l4").model("later", config={"model_type": "of-tomorrow"})
    loaded(engine, folder)
    folder.gpu("t4", advertised_bytes=16).remove("gpus/l4.yaml").gpu("b200")

    report = loaded(engine, folder)

    assert counts(report) == (1, 1, 1, 2)
    assert report.lines == (
        "+ gpu b200",
        "~ gpu t4",
        "    memory.advertised_bytes: 80000000000 -> 16",
        "- gpu l4",
    )
    assert (report.revision, report.waiting) == (2, (WaitingModel("later", "of-tomorrow"),))


def test_loading_again_makes_no_revision(engine: Engine, folder: CatalogFolder) -> None:
    folder.gpu("a100")

    assert [loaded(engine, folder).revision for _ in range(3)] == [1, 1, 1]


def test_loading_twice_at_once_makes_one_revision(engine: Engine, folder: CatalogFolder) -> None:
    folder.gpu("a100").gpu("t4")
    with ThreadPoolExecutor() as pool:
        reports = list(pool.map(lambda _: loaded(engine, folder), range(3)))

    assert sorted(counts(report) for report in reports) == [(0, 0, 0, 2), (0, 0, 0, 2), (2, 0, 0, 0)]
    assert {report.revision for report in reports} == {1}


def test_a_revision_of_files_says_so(engine: Engine, folder: CatalogFolder) -> None:
    load(engine, folder.gpu("a100").path, "jo")

    with reading(engine) as connection:
        revision = connection.execute(select(CATALOG_REVISION)).one()
    assert (revision.author, revision.origin, revision.summary) == ("jo", "files", "1 created, 0 changed, 0 deleted")


def test_a_dry_run_shows_and_writes_nothing(engine: Engine, folder: CatalogFolder) -> None:
    report = loaded(engine, folder.gpu("a100"), dry_run=True)

    assert (counts(report), report.revision) == ((1, 0, 0, 0), 0)
    with reading(engine) as connection:
        assert current_revision(connection) == 0


def test_a_problem_in_one_file_loads_none(engine: Engine, folder: CatalogFolder) -> None:
    with pytest.raises(CatalogFilesError):
        loaded(engine, folder.gpu("a100").gpu("t4", advertised_bytes=0))

    with reading(engine) as connection:
        assert current_revision(connection) == 0


def test_what_others_changed_is_kept_and_said(engine: Engine, folder: CatalogFolder) -> None:
    loaded(engine, folder.gpu("a100").gpu("t4"))
    store(engine, gpu_change("a100", name="edited"), origin="api")

    report = loaded(engine, folder)

    assert counts(report) == (0, 0, 0, 1)
    assert report.conflicts == ("gpu a100: changed by api in revision 2",)
    assert report.conflict_lines == (*report.conflicts, '    name: "edited" -> "A100"')
    assert stored_name(engine, "a100") == "edited"


def test_the_files_win_over_others_where_that_is_asked_for(engine: Engine, folder: CatalogFolder) -> None:
    loaded(engine, folder.gpu("a100").gpu("t4").gpu("l4"))
    store(engine, gpu_change("a100", name="edited"), gpu_change("l4", name="edited"), origin="api")
    store(engine, Change(GPU, "t4", None), gpu_change("own-card"), origin="api")

    report = loaded(engine, folder.remove("gpus/l4.yaml"), overwrite=True)

    assert (counts(report), report.conflicts) == ((1, 1, 1, 0), ())
    assert report.lines == ("+ gpu t4", "~ gpu a100", '    name: "edited" -> "A100"', "- gpu l4")
    assert stored_name(engine, "a100") == "A100"
    assert stored_name(engine, "own-card") == "OWN-CARD"
    assert counts(loaded(engine, folder)) == (0, 0, 0, 2)


def test_numbers_without_a_fraction_are_stored_as_integers(engine: Engine, folder: CatalogFolder) -> None:
    folder.text("gpus/a.yaml", json.dumps(gpu_facts("a")).replace("80000000000", "80.0e9"))

    loaded(engine, folder)

    with reading(engine) as connection:
        size = read_facts(connection, [(GPU, "a")])[GPU, "a"]["memory"]["advertised_bytes"]
    assert (size, type(size)) == (80_000_000_000, int)


def test_a_load_is_in_the_audit_and_one_without_a_change_is_not(engine: Engine, folder: CatalogFolder) -> None:
    for _ in range(2):
        load(engine, folder.gpu("a100").path, "jo")

    with reading(engine) as connection:
        events = connection.execute(select(AUDIT_EVENT)).all()
    assert [(event.actor, event.action, event.revision) for event in events] == [("jo", "catalog.loaded", 1)]


def test_facts_that_cannot_be_are_a_problem_though_the_schema_allows_them(folder: CatalogFolder) -> None:
    folder.gpu("a", memory={"type": "x", "advertised_bytes": 1, "bandwidth_bytes_per_second": 5e-324})

    assert [problem.pointer for problem in problems(folder)] == ["/memory/bandwidth_bytes_per_second"]


def test_what_others_deleted_is_not_created_again(engine: Engine, folder: CatalogFolder) -> None:
    loaded(engine, folder.gpu("a100").gpu("t4"))
    store(engine, Change(GPU, "a100", None), origin="api")

    report = loaded(engine, folder)

    assert (counts(report), report.conflicts) == ((0, 0, 0, 1), ("gpu a100: deleted since, not created again",))


def test_what_others_changed_is_not_deleted(engine: Engine, folder: CatalogFolder) -> None:
    loaded(engine, folder.gpu("a100").gpu("t4"))
    store(engine, gpu_change("a100", name="edited"), origin="api")

    report = loaded(engine, folder.remove("gpus/a100.yaml"))

    assert report.conflicts == ("gpu a100: not in the files, but changed by api in revision 2",)
    assert stored_name(engine, "a100") == "edited"


def test_what_others_made_is_none_of_the_files_business(engine: Engine, folder: CatalogFolder) -> None:
    store(engine, gpu_change("own-card"), origin="api")

    report = loaded(engine, folder.gpu("a100"))

    assert (counts(report), report.conflicts) == ((1, 0, 0, 0), ())
    assert stored_name(engine, "own-card") == "OWN-CARD"


def test_an_edit_that_the_files_caught_up_with_is_no_conflict(engine: Engine, folder: CatalogFolder) -> None:
    loaded(engine, folder.gpu("a100"))
    store(engine, gpu_change("a100", name="edited"), origin="api")

    report = loaded(engine, folder.gpu("a100", name="edited"))

    assert (counts(report), report.conflicts, report.revision) == ((0, 0, 0, 1), (), 2)
