"""The name under which a full block of KV is filed in the prefix cache.

Why a chain: the KV of a block depends on every token before it, so the name must too. Each block's digest is SHA-256 over its
parent's digest and its own token ids; the first parent is a root made of the request's tagged extra keys (adapter, salt, …), which
so separates everything that follows. Token ids go in as 64-bit integers: ids 65 and 321 differ.

The chain belongs to the *request* (it follows from its tokens alone), never to the blocks: a block that is evicted, reused or
swapped cannot restart it. On a hit the parent and the tokens are compared too, so a hit does not rest on the digest alone.
(The scheme follows vLLM's automatic prefix caching.)
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple

ExtraKeys = tuple[tuple[str, str], ...]


class BlockKey(NamedTuple):
    """digest: the name; parent: the name of the block before it; tokens: the block's own ids, 8 bytes each."""

    digest: bytes
    parent: bytes
    tokens: bytes


def root_digest(extra_keys: ExtraKeys) -> bytes:
    """The parent of a first block. Every part goes in with its length, so that no two different sets of keys read the same."""
    parts = [b"infer_lab.kv"]
    for name, value in sorted(extra_keys):
        for text in (name, value):
            data = text.encode()
            parts += [len(data).to_bytes(8, "little"), data]
    return sha256(b"".join(parts)).digest()


def extend_block_keys(keys: list[BlockKey], token_ids: Sequence[int], extra_keys: ExtraKeys, block_size: int) -> None:
    """Append the keys of the full blocks of `token_ids` that `keys` lacks. Work is proportional to the new blocks only."""
    first, last = len(keys), len(token_ids) // block_size
    if first == last:
        return
    parent = keys[-1].digest if keys else root_digest(extra_keys)
    data = array("q", token_ids[first * block_size : last * block_size]).tobytes()
    width = 8 * block_size
    for at in range(0, len(data), width):
        tokens = data[at : at + width]
        key = BlockKey(sha256(parent + tokens).digest(), parent, tokens)
        keys.append(key)
        parent = key.digest
