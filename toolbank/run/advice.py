"""What of a bank keeps its retrievers or figures from being worth much, and what to do."""

from __future__ import annotations

from toolbank.bank.frames import BankFrames
from toolbank.evaluation.interval import FEWEST
from toolbank.generate.writers import has_copied_wording
from toolbank.system.numbers import count


def advise(bank: BankFrames, k: int | None) -> list[str]:
    """A line for each thing that the user should mend; none where all is well.

    The main figure is the recall of the first `k` tools, if there is one.
    """
    return [
        line
        for line in (
            _on_tools(bank),
            _on_number(bank, k),
            _on_queries(bank),
            _on_wording(bank),
            _on_test(bank),
        )
        if line
    ]


def _on_tools(bank: BankFrames) -> str:
    texts = zip(bank.tools["summary"], bank.tools["description"], strict=True)
    bare = sum(not (summary or description) for summary, description in texts)
    if 2 * bare < bank.tools.height or not bare:
        return ""
    return (
        f"{bare:,} of {count(bank.tools.height, 'tool')} {'has' if bare == 1 else 'have'} no description, and a tool is found by it "
        "until requests use it. Describe each in a sentence."
    )


def _on_number(bank: BankFrames, k: int | None) -> str:
    n = bank.tools.height
    if k is None or n > k:
        return ""
    return (
        f"With {count(n, 'tool')} in all, R@{k} is 100 whatever the retriever: add tools, or go "
        "by R@1."
    )


def _on_queries(bank: BankFrames) -> str:
    lost = {
        reason.removeprefix("query: "): found["count"]
        for reason, found in bank.info.get("left_out", {}).items()
        if reason.startswith("query: ")
    }
    left_out, kept = sum(lost.values()), bank.queries.height
    if left_out < kept or not left_out:
        return ""
    most = max(lost, key=lambda reason: lost[reason])
    return (
        f"Left out of the {left_out + kept:,} requests of the dataset: {left_out:,}, most of them "
        f"for one reason: {most} ({lost[most]:,}). Mend it there."
    )


def _on_wording(bank: BankFrames) -> str:
    if not has_copied_wording(bank.info):
        return ""
    return (
        "The requests are of the reference's own words, as people's are not: on the bank's own "
        "test split, retrievers by words look better than they are. Trust a labelled file of real "
        "requests (evaluate.on) more."
    )


def _on_test(bank: BankFrames) -> str:
    n = bank.queries.filter(split="test").height
    if n >= FEWEST:
        return ""
    return (
        f"{count(n, 'request to test on is', 'requests to test on are')} too few to "
        "tell retrievers apart: use more requests, a larger split.test, or a labelled file of "
        "your own (evaluate.on)."
    )
