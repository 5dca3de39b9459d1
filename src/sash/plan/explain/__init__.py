"""EXPLAIN: how queries will be answered, as text, as JSON and as a picture. Deterministic."""

from sash.plan.explain.build import explain
from sash.plan.explain.picture import to_svg
from sash.plan.explain.text import duration, explain_program, to_json, to_text
from sash.plan.explain.tree import Explained, Step

__all__ = ["Explained", "Step", "duration", "explain", "explain_program", "to_json", "to_svg", "to_text"]
