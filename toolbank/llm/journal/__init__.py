"""Replies on disk before they count."""

from toolbank.llm.journal.layout import Failure, JournalEntry, StepUsage
from toolbank.llm.journal.migration import is_journal
from toolbank.llm.journal.store import Journal, borrowing, copy_journal

__all__ = [
    "Failure",
    "Journal",
    "JournalEntry",
    "StepUsage",
    "borrowing",
    "copy_journal",
    "is_journal",
]
