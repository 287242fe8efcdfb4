"""Numbers in words: exact counts and rounded estimates; seeds that every library accepts."""

from __future__ import annotations

import math

_UNITS = (("days", 86400), ("h", 3600), ("min", 60))


def count(number: int, noun: str, plural: str = "") -> str:
    """A count and what is counted, such as 1 tool or 1,200 tools; `plural`: not by an s."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def about(number: float) -> str:
    """A count to two digits, such as 31,000,000; exact below 100."""
    if number < 100:
        return f"{round(number):,}"
    step = 10 ** (math.floor(math.log10(number)) - 1)
    return f"{round(number / step) * step:,}"


def dollars(amount: float) -> str:
    """Dollars to two digits, such as $4.30 or $120."""
    if 0 < amount < 0.01:
        return "less than $0.01"
    return f"${about(amount)}" if amount >= 10 else f"${amount:.2f}"


def rate(price: float) -> str:
    """Dollars for a million tokens, with all the digits that they have and at least cents."""
    cents, more = f"{price:,.6f}"[:-4], f"{price:.6f}"[-4:].rstrip("0")
    return f"${cents}{more}"


def duration(seconds: float) -> str:
    """Seconds in the unit that a person would use, such as 40 min or 2.5 h."""
    for unit, size in _UNITS:
        if seconds >= 1.5 * size:
            return f"{_short(seconds / size)} {unit}"
    return f"{max(1, round(seconds))} s"


def seconds(value: float) -> str:
    """Measured seconds to two digits, or whole ones from 10 on, such as 0.44 s or 130 s."""
    return f"{value:.0f} s" if value >= 9.95 else f"{value:.2g} s"


def span(low: str, high: str) -> str:
    """A range, or the one value where both ends read alike."""
    return low if low == high else f"{low} to {high}"


def _short(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0") if number < 10 else about(number)


def size(n: int) -> str:
    """Bytes in the unit that a person would use, such as 950 B or 4.2 MB."""
    number, unit = float(n), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if number < 1000:
            break
        number, unit = number / 1000, larger
    return f"{n:,} B" if unit == "B" else f"{number:.1f} {unit}"


def unsigned(seed: int, bits: int = 63) -> int:
    """A recipe's seed, of 64 bits with a sign, as one of so many bits without."""
    return int(seed % 2**bits)
