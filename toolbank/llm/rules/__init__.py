"""Requests written from the reference's own words, with no model at all."""

from toolbank.llm.rules.engine import RulesEngine

__all__ = ["RulesEngine"]
