"""Replies on disk before they count."""

from toolbank.journal.records import Entry, Failure, StepUsage
from toolbank.journal.store import Journal

__all__ = ["Entry", "Failure", "Journal", "StepUsage"]
