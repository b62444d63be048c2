"""Numbers for operators in Prometheus' text format: requests by route and status, and how long they took."""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import dataclass, field

METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS")
BUCKETS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


@dataclass(frozen=True, eq=False)
class Metrics:
    """Counters of one server. For operators only: how long a release takes may depend on the data."""

    _requests: dict[tuple[str, str, int], int] = field(default_factory=lambda: defaultdict(int))
    _seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    _within: dict[tuple[str, float], int] = field(default_factory=lambda: defaultdict(int))
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Notes one finished request."""
        with self._turn:
            self._requests[method if method in METHODS else "other", route, status] += 1
            self._seconds[route] += seconds
            for bucket in BUCKETS:
                if seconds <= bucket:
                    self._within[route, bucket] += 1

    def text(self) -> str:
        """Everything, one number per line."""
        with self._turn:
            requests, seconds, within = dict(self._requests), dict(self._seconds), dict(self._within)
        lines = ["# TYPE blowfish_requests_total counter"]
        lines += [
            f'blowfish_requests_total{{method="{method}",route="{route}",status="{status}"}} {number}'
            for (method, route, status), number in sorted(requests.items())
        ]
        lines.append("# TYPE blowfish_request_seconds histogram")
        for route in sorted(seconds):
            total = sum(number for (_, named, _), number in requests.items() if named == route)
            for bucket in BUCKETS:
                found = within.get((route, bucket), 0)
                lines.append(f'blowfish_request_seconds_bucket{{route="{route}",le="{bucket:g}"}} {found}')
            lines.append(f'blowfish_request_seconds_bucket{{route="{route}",le="+Inf"}} {total}')
            lines.append(f'blowfish_request_seconds_sum{{route="{route}"}} {seconds[route]:.6f}')
            lines.append(f'blowfish_request_seconds_count{{route="{route}"}} {total}')
        return "\n".join(lines) + "\n"
