"""Rewrites: one per file, each a plain function from a plan to an equivalent plan."""

from sash.plan.rules.registry import RULES, Rule, apply_rules

__all__ = ["RULES", "Rule", "apply_rules"]
