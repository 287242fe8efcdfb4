"""The interval of a share that was counted."""

import math

_Z95 = 1.959963984540054


def wilson_interval(count: float, n: int) -> tuple[float, float]:
    """The 95 % Wilson score interval of the share of `count` among `n`, which is at least 1.

    E. B. Wilson, "Probable inference, the law of succession, and statistical inference",
    JASA 22 (1927).
    """
    share, z2 = count / n, _Z95**2
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = _Z95 / (1 + z2 / n) * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    return max(0.0, centre - half), min(1.0, centre + half)
