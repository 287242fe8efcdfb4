"""What a server has done, as Prometheus reads it."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable

_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Metrics:
    """Counts by route and status, and how long searches took; nothing of what was asked."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, int]] = Counter()
        self.nothing: Counter[str] = Counter()
        self._buckets: dict[str, list[int]] = {}
        self._seconds: Counter[str] = Counter()

    def searched(self, finder: str, seconds: float) -> None:
        """Count a search of a finder, with the time from its coming to its answer."""
        buckets = self._buckets.setdefault(finder, [0] * (len(_BOUNDS) + 1))
        buckets[bisect_left(_BOUNDS, seconds)] += 1
        self._seconds[finder] += seconds  # type: ignore[assignment]

    def text(self, gauges: Iterable[tuple[str, str, str, float]]) -> str:
        """All of it in Prometheus' text format; `gauges` are name, kind, labels and value."""
        lines = ["# TYPE toolbank_requests_total counter"]
        for (route, status), times in sorted(self.requests.items()):
            labels = f'route="{route}",status="{status}"'
            lines.append(f"toolbank_requests_total{{{labels}}} {times}")
        lines.append("# TYPE toolbank_nothing_fits_total counter")
        for finder, times in sorted(self.nothing.items()):
            lines.append(f'toolbank_nothing_fits_total{{finder="{finder}"}} {times}')
        lines.append("# TYPE toolbank_search_seconds histogram")
        for finder, buckets in sorted(self._buckets.items()):
            lines += _histogram(finder, buckets, self._seconds[finder])
        named = ""
        for name, kind, labels, value in gauges:
            if name != named:
                lines.append(f"# TYPE {name} {kind}")
            named = name
            lines.append(f"{name}{labels} {value:g}")
        return "\n".join(lines) + "\n"


def _histogram(finder: str, buckets: list[int], seconds: float) -> list[str]:
    lines, below = [], 0
    for bound, times in zip((*_BOUNDS, "+Inf"), buckets, strict=True):
        below += times
        labels = f'finder="{finder}",le="{bound}"'
        lines.append(f"toolbank_search_seconds_bucket{{{labels}}} {below}")
    lines.append(f'toolbank_search_seconds_sum{{finder="{finder}"}} {seconds:.6f}')
    lines.append(f'toolbank_search_seconds_count{{finder="{finder}"}} {below}')
    return lines
