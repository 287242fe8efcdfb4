"""Format counts, estimates, money, times and sizes for people; convert seeds."""

from __future__ import annotations

import math

_UNITS = (("days", 86400), ("h", 3600), ("min", 60))


def count(number: int, noun: str, plural: str = "") -> str:
    """Format a count with its noun, such as 1 tool or 1,200 tools; `plural` if it is irregular."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def about(number: float) -> str:
    """Round a count to two digits, such as 31,000,000; exact below 100."""
    if number < 100:
        return f"{round(number):,}"
    step = 10 ** (math.floor(math.log10(number)) - 1)
    return f"{round(number / step) * step:,}"


def dollars(amount: float) -> str:
    """Format dollars to two digits, such as $4.30 or $120."""
    if 0 < amount < 0.01:
        return "less than $0.01"
    return f"${about(amount)}" if amount >= 10 else f"${amount:.2f}"


def rate(price: float) -> str:
    """Format dollars per million tokens with all their digits, and at least cents."""
    cents, more = f"{price:,.6f}"[:-4], f"{price:.6f}"[-4:].rstrip("0")
    return f"${cents}{more}"


def duration(seconds: float) -> str:
    """Format seconds in a fitting unit, such as 40 min or 2.5 h."""
    for unit, size in _UNITS:
        if seconds >= 1.5 * size:
            return f"{_short(seconds / size)} {unit}"
    return f"{max(1, round(seconds))} s"


def seconds(value: float) -> str:
    """Format measured seconds to two digits, and whole ones from 10 on: 0.44 s or 130 s."""
    return f"{value:.0f} s" if value >= 9.95 else f"{value:.2g} s"


def span(low: str, high: str) -> str:
    """Format a range, or one value if both ends are the same."""
    return low if low == high else f"{low} to {high}"


def _short(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0") if number < 10 else about(number)


def size(n: int) -> str:
    """Format bytes in a fitting unit, such as 950 B or 4.2 MB."""
    number, unit = float(n), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if number < 1000:
            break
        number, unit = number / 1000, larger
    return f"{n:,} B" if unit == "B" else f"{number:.1f} {unit}"


def unsigned(seed: int, bits: int = 63) -> int:
    """Convert a recipe's seed (signed, 64 bits) to an unsigned one of this many bits."""
    return int(seed % 2**bits)
