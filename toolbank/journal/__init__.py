"""Replies on disk before they count."""

from toolbank.journal.layouts import is_journal
from toolbank.journal.records import Entry, Failure, StepUsage
from toolbank.journal.store import Journal, copy_journal

__all__ = ["Entry", "Failure", "Journal", "StepUsage", "copy_journal", "is_journal"]
