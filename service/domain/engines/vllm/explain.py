"""The parts of an answer that say why: ledger rows, constraint, assumptions, warnings, and the derivation by lines."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from service.domain.engines.vllm import capacity
from service.domain.engines.vllm.capacity import requested_bytes
from service.domain.engines.vllm.pages import Paging
from service.domain.units import GIB

if TYPE_CHECKING:
    from service.domain.engines.vllm.capacity import Held
    from service.domain.engines.vllm.groups import Group
    from service.domain.engines.vllm.setting import Setting

_SMALL_SHARE = 0.1
_BASIS = (
    "each part of the reserve and the weights as logs of that release, device and layout spread them, taken as"
    " independent of each other; nine tenths of logged caches lie within"
)
_GIVEN_BASIS = "blocks of a cache of the given size, nothing modelled"
_ALWAYS_SHOWN = frozenset({"weights", "kv_cache", "unused"})


class Row(NamedTuple):
    """A part of the limiting rank's memory, and how its size came about."""

    name: str
    bytes: int
    note: str
    source: str | None = None


def ledger_rows(held: Held, weights_note: str) -> tuple[Row, ...]:
    """Parts that add up to the device's memory and what it is overcommitted by."""
    memory, rank = held.memory, held.rank
    reserve = [Row(f"reserve.{part.name}", part.span.middle, part.note, part.source) for part in held.parts]
    if memory.reserve_bytes is not None:
        reserve = [Row("reserve", memory.reserve_bytes, "as asked")]
    pool = "as asked" if memory.pool_bytes is not None else f"{held.blocks:,} blocks x {rank.block_bytes:,} B"
    rows = (
        Row("weights", rank.weight_bytes - rank.adapter_bytes, weights_note),
        Row("adapters", rank.adapter_bytes, held.slots_note),
        *reserve,
        Row("kv_cache", held.cache_bytes, pool),
        Row("others", memory.others_bytes, "held by other processes"),
        Row("outside_budget", held.outside_bytes, "held back by memory_utilization"),
        Row("unused", held.unused_bytes, "left by rounding to blocks and to the rank with the fewest"),
    )
    return tuple(row for row in rows if row.bytes or row.name in _ALWAYS_SHOWN)


def constraint(held: Held) -> str:
    """What stops the start or one more sequence, in the words of the contract."""
    if held.refusals:
        return held.refusals[0].constraint
    rank, memory = held.rank, held.memory
    if rank.over_bytes:
        requested = requested_bytes(memory)
        if rank.weight_bytes > requested:
            return "weights"
        counted = held.rules.runtime.counts_others or memory.pool_bytes is not None
        if counted and rank.weight_bytes + memory.others_bytes > requested:
            return "free_memory"
        return "reserve" if memory.pool_bytes is None else "kv_cache"
    if held.sequences and not held.starts:
        return "context_limit"
    return "sequence_limit" if held.sequences >= held.batch.sequences else "kv_cache"


def free_memory(held: Held) -> tuple[int, int] | None:
    """What utilization asks for and what is free of it, where the release refuses to start for that; None otherwise."""
    if not held.refusals or held.refusals[0].constraint != "free_memory":
        return None
    memory = held.memory
    return math.ceil(memory.memory_bytes * memory.utilization), max(0, memory.memory_bytes - memory.others_bytes)


def available_bytes(held: Held) -> int:
    """What the limiting rank has for weights, reserve and cache."""
    if held.memory.pool_bytes is not None and not held.rank.over_bytes:
        return held.memory.pool_bytes
    return max(0, capacity.available_bytes(held.memory, held.rules))


def needed_bytes(held: Held, sequences: int) -> int:
    """What the limiting rank needs for so many sequences, and at least to start: a cache that was asked for whole."""
    cache, asked = held.needed_bytes(sequences), held.memory.pool_bytes
    if asked is not None and not held.rank.over_bytes:
        return cache
    return held.rank.weight_bytes + held.rank.reserve.total + max(cache, asked or 0)


def interval(held: Held, replicas: int) -> dict[str, Any]:
    """Low and high end of what the evidence allows, in the keys of the answer."""
    block, low, high = held.rank.block_bytes, held.low_blocks, held.high_blocks
    given = held.memory.pool_bytes is not None
    sizes = [held.cache_bytes, held.cache_bytes] if given else [low * block, high * block]
    # Where as much as was asked for does not fit, no spread of the evidence lets a sequence run.
    ends = [0, 0] if given and held.rank.over_bytes else [low // held.context_blocks, high // held.context_blocks]
    return {
        "kv_cache_bytes": sizes,
        "max_concurrency": [low / held.printed_blocks, high / held.printed_blocks],
        "max_sequences": [end * replicas for end in ends],
        "basis": _basis(held),
    }


def _basis(held: Held) -> str:
    if held.memory.pool_bytes is not None:
        return _GIVEN_BASIS
    learned = held.memory.correction
    return learned.basis if learned.probes and held.parts else _BASIS


def assumptions(held: Held, setting: Setting) -> list[str]:
    """What the answer takes for granted of the engine."""
    batch, release = held.batch, held.release
    found = [release.note] if release.note else []
    found.append(
        f"vLLM {release.name}, {held.rules.core.upper()} core, batches of {batch.tokens:,} tokens and"
        f" {batch.sequences:,} sequences, blocks of {held.plan.block_tokens:,} tokens"
    )
    if held.rules.core != release.engine.core:
        found.append(f"vLLM {release.name} falls back to its older core for this device, type or model")
    if setting.device.capability is None and not setting.memory.pool_bytes:
        found.append("compute capability and link are not known: quoted as an older device without NVLink")
    if held.plan.padding_layers:
        found.append(f"cache groups with {held.plan.padding_layers} places that no layer fills")
    return found


def warnings(held: Held) -> list[str]:
    """What a reader should not overlook."""
    found = [refusal.detail for refusal in held.refusals]
    rank = held.rank
    pool = rank.blocks * rank.block_bytes
    if held.memory.pool_bytes is None and pool and pool < _SMALL_SHARE * held.memory.memory_bytes:
        low, high = held.low_blocks * rank.block_bytes / GIB, held.high_blocks * rank.block_bytes / GIB
        found.append(
            f"The cache is a small difference of large sizes: between {low:.2f} and {high:.2f} GiB, and the ceiling"
            f" between {held.low_blocks // held.context_blocks:,} and {held.high_blocks // held.context_blocks:,}."
        )
    return found


def derivation(held: Held, setting: Setting, weights_note: str) -> list[str]:
    """The arithmetic with its numbers put in, one step a line, for the limiting rank."""
    rank, lines = held.rank, []
    if setting.layout.gpus > 1:
        lines.append(f"rank {rank.first} of a replica, on pipeline stage {rank.stage}, fills first")
    lines += [*_pool_lines(held, weights_note), *_group_lines(held)]
    lines.append(
        f"{held.blocks:,} blocks / {held.printed_blocks:,} of a request of {held.limit_tokens:,} tokens"
        f" = {held.concurrency:.2f} at once" + _by_bytes(held)
    )
    lines.append(f"floor({held.blocks:,} / {held.context_blocks:,}) = {held.sequences:,} sequences")
    return lines


def _by_bytes(held: Held) -> str:
    """What the engine divides by where that is not how many blocks a request holds."""
    if held.printed_blocks == held.limit_blocks:
        return ""
    return f", printed by the bytes that each of its {held.limit_blocks:,} blocks fills of a whole one"


def _pool_lines(held: Held, weights_note: str) -> list[str]:
    memory, rank = held.memory, held.rank
    blocks = f" // {rank.block_bytes:,} B a block = {rank.blocks:,} blocks"
    if memory.pool_bytes is not None:
        return [f"{memory.pool_bytes:,} B for the KV cache, as asked{blocks}"]
    requested = requested_bytes(memory)
    lines = [f"{memory.memory_bytes:,} B of memory x {memory.utilization:g} = {requested:,} B"]
    lines.append(f"- {rank.weight_bytes - rank.adapter_bytes:,} B weights ({weights_note})")
    if rank.adapter_bytes:
        lines.append(f"- {rank.adapter_bytes:,} B adapters ({held.slots_note})")
    lines += [f"- {part.span.middle:,} B {part.name} ({part.note})" for part in held.parts]
    if memory.reserve_bytes is not None:
        lines.append(f"- {memory.reserve_bytes:,} B reserve, as asked")
    if memory.others_bytes and held.rules.runtime.counts_others:
        lines.append(f"- {memory.others_bytes:,} B held by others")
    if rank.over_bytes:
        return [*lines, f"{rank.over_bytes:,} B too much"]
    return [*lines, f"= {rank.pool_bytes:,} B{blocks}"]


def _group_lines(held: Held) -> list[str]:
    return [_group_line(group, count, held) for group, count in held.plan.alike]


def _group_line(group: Group, count: int, held: Held) -> str:
    words = {
        Paging.FULL: "full attention",
        Paging.WINDOW: f"window of {group.tokens:,} tokens, {held.flight.tokens:,} in flight",
        Paging.CHUNK: f"chunk of {group.tokens:,} tokens, {held.flight.tokens:,} in flight",
        Paging.STATE: "recurrent state",
        Paging.CROSS: f"encoder output of {group.tokens:,} tokens",
    }[group.paging]
    each = group.blocks(held.limit_tokens, held.flight)
    groups = "1 group" if count == 1 else f"{count} groups"
    held_in = "" if group.paging is Paging.STATE else f" of {group.block_tokens:,} tokens"
    return f"{groups}, {words}: {each:,} blocks{held_in} for {held.limit_tokens:,} tokens"
