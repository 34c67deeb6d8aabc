"""How much memory a KV cache takes: blocks taken as needed against room for the longest.

Owns that arithmetic for a number of equal requests. Simulates nothing.
"""

from __future__ import annotations


def preallocated_bytes(requests: int, longest_tokens: int, bytes_per_token: float) -> float:
    """Every request has room for the longest from the start."""
    return requests * longest_tokens * bytes_per_token


def paged_bytes(requests: int, tokens: float, page_tokens: int, bytes_per_token: float) -> float:
    """Every request has the pages that its ``tokens`` need."""
    return requests * -(-tokens // page_tokens) * page_tokens * bytes_per_token


def waste(held_bytes: float, used_bytes: float) -> float:
    """The share of what is held that nobody uses."""
    return 1 - used_bytes / held_bytes
