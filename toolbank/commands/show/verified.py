"""Showing what the verification of a request came to, and what was asked and answered for it."""

from __future__ import annotations

from collections.abc import Iterator

from toolbank.bank.bank import Verified, group_labels, read_labels
from toolbank.bank.records import Query
from toolbank.commands.show.transcript import format_attempt
from toolbank.llm.chat import number_of
from toolbank.llm.journal import Journal
from toolbank.requests.verify.config import VerifyConfig
from toolbank.run.folder import RunFolder


def show_verified(folder: RunFolder, query: Query) -> str:
    """The verified labels of a request, after the exchange that they came from; "" without either.

    Raises:
        InputError: the labels are damaged.
        ToolbankError: the journal can't be read.
    """
    entries, failures = [], []
    if folder.journal.is_file():
        with Journal(folder.journal, read_only=True) as journal:
            steps, number = VerifyConfig.call_steps, number_of(query.query)
            entries = [one for one in journal.entries(number) if one.step in steps]
            failures = [one for one in journal.failures(number) if one.step in steps]
    labels = read_labels(folder.bank / "labels.parquet")
    verified = group_labels(one for one in labels if one.query == query.id)
    if not (entries or failures or verified):
        return ""
    ending = list(_describe(verified.get(query.id)))
    return format_attempt(f"labels of {query.id}", entries, failures, ending)


def _describe(verified: Verified | None) -> Iterator[str]:
    if verified is None:
        yield "no verified labels: the first ones count"
    elif verified.aside:
        yield f"set aside: {verified.aside}"
    else:
        for name in verified.needed:
            others = verified.alternatives.get(name, ())
            yield f"needed: {' or '.join((name, *others))}"
