"""Every model of the catalog that can be read: quoted, its cache by context, its shares under parallelism."""

from collections.abc import Callable
from functools import cache
from itertools import chain, pairwise
from typing import Any

import pytest

from service.domain.architecture import Architecture, Module, ModuleKind, Place, Shard
from service.domain.cache.base import CacheKind, CacheSpec
from service.domain.cache.recurrent import RecurrentCache
from service.domain.catalog import CatalogKind
from service.domain.errors import UnknownArchitecture, ValidationError
from service.domain.fit import sequences
from service.domain.ledger import Budget
from service.domain.loads import RankLoad, rank_loads, replicated, whole_load
from service.domain.model import Model
from service.domain.parallel import Layout, check_layout, stage_layers, tensor_counts
from service.domain.precision import CacheFormat, WeightFormat
from service.domain.question import resolve
from service.domain.quote import fit
from tests.domain.conftest import CATALOG, Shelf, entry

SHELF = Shelf()
ROOM = 16 << 40
CONTEXTS = (1, 2, 127, 128, 129, 1000, 4096, 4097, 8192, 8193, 32_768, 131_072, 131_073, 1 << 20)
TENSORS = (2, 4, 8, 16)
ROWS = 128
"""A multiple of every number of tokens that share a row."""
UNDIVIDED = frozenset({CacheKind.LATENT, CacheKind.INDEXER})


@cache
def models() -> dict[str, Model]:
    """The models that a reader knows, by id."""
    found = {}
    for path in sorted((CATALOG / "models").glob("*.yaml")):
        try:
            found[path.stem] = SHELF.model(path.stem)
        except UnknownArchitecture:
            continue
    return found


def wrong(holds: Callable[[Model], bool]) -> list[str]:
    """The models of which that does not hold."""
    return [name for name, model in models().items() if not holds(model)]


def formats() -> tuple[WeightFormat, CacheFormat]:
    number = SHELF.format("bf16")
    assert number.weight
    assert number.cache
    return number.weight, number.cache


def ranks(model: Model, tensor: int = 1, pipeline: int = 1, *, expert: bool = False) -> tuple[RankLoad, ...]:
    return rank_loads(model, *formats(), Layout(tensor, pipeline, expert=expert))


def splits(model: Model) -> list[int]:
    works = tensor_counts(model.architecture)
    return [tensor for tensor in TENSORS if tensor in works]


def stages(model: Model) -> list[int]:
    return [pipeline for pipeline in (2, 3, 4, 7) if pipeline <= model.architecture.layers]


def elements_on_all_ranks(module: Module, tensor: int, pipeline: int) -> int:
    """Elements of a module over all ranks, copies and rounding included, by the rules of sharding alone."""
    side, other = (module.columns, module.rows) if module.shard is Shard.COLUMNS else (module.rows, module.columns)
    if module.shard is Shard.REPLICATED:
        side *= tensor
    elif module.shard is Shard.KV_ROWS:
        side = side // module.heads * max(module.heads, tensor)
    else:
        side = -(-side // tensor) * tensor
    ends = 2 if module.place is Place.BOTH_ENDS and pipeline > 1 else 1
    return ends * module.count * side * other


def bytes_on_all_ranks(architecture: Architecture, tensor: int, pipeline: int) -> int:
    counted = (module for module in architecture.modules if module.kind is not ModuleKind.PREDICTION)
    return 2 * sum(elements_on_all_ranks(module, tensor, pipeline) for module in counted)


def ask(**asked: Any) -> dict[str, Any]:  # noqa: ANN401  # any names of a question
    return fit(resolve(asked, SHELF), SHELF)


def test_layers_ascend_in_every_module_and_cache() -> None:
    def ascend(model: Model) -> bool:
        owned = [module.layers for module in model.architecture.modules]
        owned += [caches.layers for caches in model.architecture.caches]
        return all(list(layers) == sorted(set(layers)) for layers in owned)

    assert not wrong(ascend)


def test_an_entry_that_cannot_be_read_says_what_it_waits_for() -> None:
    unread = {path.stem for path in (CATALOG / "models").glob("*.yaml")} - set(models())

    assert len(models()) > 370
    assert [name for name in unread if not entry(CatalogKind.MODEL, name).facts.get("waits_for")] == []


def test_every_entry_is_quoted() -> None:
    assert wrong(lambda model: ask(model=model.id, memory_bytes=ROOM, context_tokens=4096)["max_sequences"] > 0) == []


def test_every_entry_is_quoted_over_the_most_ranks_that_it_can_be_split_over() -> None:
    def answered(model: Model) -> bool:
        tensor = max(n for n in tensor_counts(model.architecture) if n <= 64)
        return bool(ask(model=model.id, memory_bytes=ROOM, context_tokens=4096, tensor_parallel=tensor)["fits"])

    assert wrong(answered) == []


def test_a_longer_sequence_never_takes_less() -> None:
    def monotone(model: Model) -> bool:
        sizes = [whole_load(model, *formats()).sequence_bytes(tokens) for tokens in CONTEXTS]
        return sizes == sorted(sizes)

    assert wrong(monotone) == []


def test_between_windows_a_sequence_grows_by_as_much_for_every_row() -> None:
    def straight(model: Model) -> bool:
        load = whole_load(model, *formats())
        bends = sorted({term.window_tokens for term in load.terms if term.window_tokens})
        for start, end in pairwise([0, *bends, max([0, *bends]) + 64 * ROWS]):
            low, high = -(-start // ROWS) * ROWS, end // ROWS * ROWS
            sizes = [load.sequence_bytes(tokens) for tokens in range(low, high + 1, ROWS)]
            if len({after - before for before, after in pairwise(sizes)}) > 1:
                return False
        return True

    assert wrong(straight) == []


def test_the_quote_follows_the_same_line_as_the_cache() -> None:
    for context in (4096, 32_768):
        load = whole_load(models()["gemma-3-27b-it"], *formats())
        quoted = ask(model="gemma-3-27b-it", memory_bytes=ROOM, context_tokens=context, kv_dtype="bf16")
        assert quoted["kv_bytes_per_sequence"] == load.sequence_bytes(context)


def test_tensor_ranks_weigh_the_whole_and_what_is_replicated() -> None:
    def adds_up(model: Model) -> bool:
        architecture = model.architecture
        return all(
            tensor * ranks(model, tensor)[0].weight_bytes == bytes_on_all_ranks(architecture, tensor, 1)
            for tensor in splits(model)
        )

    assert wrong(adds_up) == []


def test_pipeline_stages_weigh_the_whole_and_a_tied_table_twice() -> None:
    def adds_up(model: Model) -> bool:
        architecture = model.architecture
        return all(
            sum(load.weight_bytes for load in ranks(model, 1, pipeline))
            == bytes_on_all_ranks(architecture, 1, pipeline)
            for pipeline in stages(model)
        )

    assert wrong(adds_up) == []


def test_what_is_replicated_is_what_the_ranks_hold_beyond_one_copy() -> None:
    def reported(model: Model) -> bool:
        one = whole_load(model, *formats())
        for tensor in splits(model):
            beyond = replicated(ranks(model, tensor), one, tensor, 4096)
            if beyond.weight_bytes != bytes_on_all_ranks(model.architecture, tensor, 1) - one.weight_bytes:
                return False
            if beyond.sequence_bytes != tensor * ranks(model, tensor)[0].sequence_bytes(4096) - one.sequence_bytes(
                4096
            ):
                return False
        return True

    assert wrong(reported) == []


def test_nothing_is_replicated_on_one_rank() -> None:
    one = whole_load(models()["deepseek-v3"], *formats())

    assert tuple(replicated((one,), one, 1, 4096)) == (0, 0)


def test_a_latent_cache_is_replicated_on_every_rank_but_one() -> None:
    model = models()["deepseek-v3"]
    one = whole_load(model, *formats())

    assert replicated(ranks(model, 8), one, 8, 4096).sequence_bytes == 7 * one.sequence_bytes(4096)


def test_kv_heads_are_divided_and_then_replicated() -> None:
    llama, small = models()["llama-3.1-8b-instruct"], models()["qwen2.5-3b"]

    assert [ranks(llama, n)[0].growth_bytes(1) for n in (1, 2, 8, 16, 32)] == [131_072, 65_536, 16_384, 16_384, 16_384]
    assert [ranks(small, n)[0].growth_bytes(1) for n in (1, 2, 8)] == [36_864, 18_432, 18_432]


def share(spec: CacheSpec, tensor: int) -> bool:
    """Whether a rank's share of a layer's cache is what its kind says."""
    own = spec.on_rank(tensor)
    if spec.kind in UNDIVIDED or (isinstance(spec, RecurrentCache) and spec.mixer == "compressor"):
        return own == spec
    if isinstance(spec, RecurrentCache) and isinstance(own, RecurrentCache):
        return own.state_elements * tensor == spec.state_elements and own.conv_elements * tensor >= spec.conv_elements
    widths = (own.key_width, own.value_width, own.window_tokens) == (
        spec.key_width, spec.value_width, spec.window_tokens
    )  # fmt: skip
    return widths and own.kv_heads * tensor == max(spec.kv_heads, tensor)


def test_a_ranks_share_of_every_cache_is_what_its_kind_says() -> None:
    def shared(model: Model) -> bool:
        return all(share(owners.spec, tensor) for owners in model.architecture.caches for tensor in splits(model))

    assert wrong(shared) == []
    kinds = {owners.spec.kind for owners in chain.from_iterable(m.architecture.caches for m in models().values())}
    assert kinds >= {CacheKind.FULL, CacheKind.SLIDING, CacheKind.CHUNKED, CacheKind.CROSS, CacheKind.RECURRENT}
    assert kinds >= UNDIVIDED


def with_experts() -> list[Model]:
    return [model for model in models().values() if model.architecture.experts[0]]


def test_experts_are_divided_whole_under_expert_parallelism_and_sharded_otherwise() -> None:
    for model in with_experts():
        count, whole = model.architecture.experts[0], whole_load(model, *formats()).weights.expert_bytes
        for tensor in splits(model):
            spread = ranks(model, tensor, expert=True)[0].weights.expert_bytes
            assert spread * count == whole * -(-count // tensor), model.id
            sharded = ranks(model, tensor)[0].weights.expert_bytes
            assert whole <= sharded * tensor < whole * 1.001, model.id
    assert len(with_experts()) > 80


def test_stages_are_the_layers_in_order_and_the_last_is_never_the_longest() -> None:
    for layers in range(1, 130):
        for pipeline in range(1, min(layers, 17)):
            split = stage_layers(layers, pipeline)
            sizes = [len(stage) for stage in split]
            assert list(chain.from_iterable(split)) == list(range(layers))
            assert sizes[-1] == min(sizes)
            assert max(sizes) - min(sizes) <= 1


def test_spare_layers_go_to_the_stages_before_the_last() -> None:
    assert [len(stage) for stage in stage_layers(61, 4)] == [15, 15, 16, 15]
    assert [len(stage) for stage in stage_layers(62, 4)] == [15, 16, 16, 15]


def test_the_table_stands_on_the_first_stage_and_the_head_on_the_last() -> None:
    first, middle, *_, last = (load.weight_bytes for load in ranks(models()["llama-3.1-8b-instruct"], 1, 4))
    table = 2 * 128_256 * 4096

    assert first == middle + table
    assert last == middle + table + 2 * 4096


def test_the_ledger_shows_the_stage_that_fills_first() -> None:
    answer = ask(model="llama-3.1-8b-instruct", memory_bytes=24_000_000_000, context_tokens=8192, pipeline_parallel=4)
    heaviest = max(ranks(models()["llama-3.1-8b-instruct"], 1, 4), key=lambda load: load.weight_bytes)

    assert answer["rank"]["pipeline_stage"] == heaviest.stage
    assert answer["ledger"]["parts"][0]["bytes"] == heaviest.weight_bytes


def test_a_stage_without_any_cache_does_not_limit() -> None:
    model = models()["nemotron-h-8b-base-8k"]
    pipeline = model.architecture.layers
    assert [load for load in ranks(model, 1, pipeline) if not load.terms]

    answer = ask(model=model.id, memory_bytes=80_000_000_000, context_tokens=4096, pipeline_parallel=pipeline)

    assert answer["fits"] is True
    assert answer["max_sequences"] > 100


def test_a_stage_without_any_cache_whose_weights_do_not_fit_holds_nothing() -> None:
    loads = ranks(models()["nemotron-h-8b-base-8k"], 1, 52)
    full, bare = (next(load for load in loads if bool(load.terms) is kept) for kept in (True, False))
    budget = Budget(80_000_000_000, 0, 0, 0, None)

    assert sequences((full, bare), budget, 4096, 0) == sequences((full,), budget, 4096, 0) > 0
    assert sequences((full, bare._replace(weight_bytes=1 << 50)), budget, 4096, 0) == 0


def test_a_count_that_a_model_cannot_be_split_over_is_refused_with_those_that_work() -> None:
    for model in models().values():
        works = tensor_counts(model.architecture)
        for tensor in {3, 5, 6, 7, 12, 24, 40, 56, 128} - set(works):
            with pytest.raises(ValidationError, match=f"over {tensor} ranks; these counts work: 1") as caught:
                check_layout(Layout(tensor), model.architecture)
            assert ", ".join(map(str, works)) in caught.value.detail


def test_every_count_that_is_said_to_work_does() -> None:
    for model in models().values():
        for tensor in tensor_counts(model.architecture):
            check_layout(Layout(tensor), model.architecture)


@pytest.mark.parametrize(
    "name, counts",
    [
        ("qwen2.5-7b", (1, 2, 4)),  # 28 heads, an MLP of 18,944
        ("llama-2-13b", (1, 2, 4, 8)),  # 40 heads, an MLP of 13,824
        ("llama-3.1-8b-instruct", (1, 2, 4, 8, 16, 32)),
        ("deepseek-v3", (1, 2, 4, 8, 16, 32, 64, 128)),
        ("falcon-7b", (1, 71)),
        ("qwen3.5-122b-a10b", (1, 2, 4, 8, 16)),  # 32 query heads, 16 key heads of the linear layers
        ("smollm2-135m-instruct", (1, 3)),  # 9 heads, an MLP of 1,536
    ],
)
def test_heads_and_widths_decide_which_counts_work(name: str, counts: tuple[int, ...]) -> None:
    assert tensor_counts(models()[name].architecture) == counts


def test_spread_experts_need_not_be_split() -> None:
    architecture = models()["granite-3.1-3b-a800m-instruct"].architecture

    assert tensor_counts(architecture) == (1, 2, 4, 8)
    assert tensor_counts(architecture, expert=True) == (1, 2, 4, 8, 24)
    check_layout(Layout(24, expert=True), architecture)
    with pytest.raises(ValidationError):
        check_layout(Layout(24), architecture)


def test_more_stages_than_layers_are_refused() -> None:
    with pytest.raises(ValidationError, match="32 layers cannot fill 33 pipeline stages"):
        check_layout(Layout(1, 33), models()["llama-2-7b"].architecture)
