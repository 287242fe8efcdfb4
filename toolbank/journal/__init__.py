"""Replies on disk before they count."""

from toolbank.journal.journal import Journal
from toolbank.journal.records import Entry, Failure, StageUsage

__all__ = ["Entry", "Failure", "Journal", "StageUsage"]
