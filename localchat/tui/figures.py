"""Figures as people read them: bands, percents, seconds, with a real minus sign."""

from __future__ import annotations


def band_text(low: float, high: float) -> str:
    """``70–95``, with a decimal where the numbers are small."""
    digits = 0 if low >= 10 else 1
    return f"{low:,.{digits}f}–{high:,.{digits}f}"


def percent_text(percent: float) -> str:
    """``+4 %`` or ``−13 %``."""
    return with_minus(f"{percent:+.0f} %").replace("−0 %", "+0 %")


def with_minus(figure: str) -> str:
    return figure.replace("-", "−")


def seconds_text(seconds: float) -> str:
    """At least a tenth: less is no time to a person."""
    seconds = max(seconds, 0.1)
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:,.0f} s"
