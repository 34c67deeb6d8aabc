"""Figures in words, alike on every surface; what nobody knows is called unknown.

Pure. Owns how many digits say something.
"""

from __future__ import annotations


def money(usd: float | None) -> str:
    if usd is None:
        return "unknown"
    if usd == 0:
        return "$0"
    return f"${usd:,.2f}" if usd >= 1 else f"${usd:.2g}" if usd < 0.0001 else f"${usd:.4f}"


def duration(seconds: float | None) -> str:
    if seconds is None:
        return "unknown"
    return f"{seconds:.1f} s" if seconds < 100 else f"{seconds / 60:.1f} min"
