"""Replies on disk before they count."""

from toolbank.llm.journal.layout import Entry, Failure, StepUsage
from toolbank.llm.journal.migration import is_journal
from toolbank.llm.journal.store import Journal, copy_journal

__all__ = ["Entry", "Failure", "Journal", "StepUsage", "copy_journal", "is_journal"]
