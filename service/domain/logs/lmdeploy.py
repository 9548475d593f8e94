"""LMDeploy's block manager: bytes of a block in MiB, and how many there are."""

from __future__ import annotations

from .forms import form
from .grammar import Grammar

_LOGS = "public start-up logs"

LMDEPLOY = Grammar(
    engine="lmdeploy",
    hints=("BlockManager",),
    forms=(
        form("\\[BlockManager\\] block_size = {block_bytes:mib}", "0.1.0", _LOGS),
        form("\\[BlockManager\\] max_block_count = {blocks:count}", "0.1.0", _LOGS),
    ),
    opening=frozenset({"[BlockManager] block_size ="}),
)
