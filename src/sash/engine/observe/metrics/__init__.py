"""Metrics of a run for other programs: JSON lines, and the text format of Prometheus."""

from sash.engine.observe.metrics.json_lines import JsonLinesMetrics
from sash.engine.observe.metrics.prometheus import PrometheusMetrics

__all__ = ["JsonLinesMetrics", "PrometheusMetrics"]
