"""Metrics of a run for other programs: JSON lines, and the text format of Prometheus."""

from sash.runtime.metrics.json_lines import JsonLinesMetrics
from sash.runtime.metrics.prometheus import PrometheusMetrics

__all__ = ["JsonLinesMetrics", "PrometheusMetrics"]
