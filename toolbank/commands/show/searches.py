"""Showing what the retrievers of a run have asked of models."""

from __future__ import annotations

from toolbank.config.explain import read_checked
from toolbank.llm.accounts import SearchCalls, add_up_calls
from toolbank.run.folder import RunFolder
from toolbank.system.terminal import one_line

_LONGEST_LABEL = 200


def show_searches(folder: RunFolder) -> str:
    """Replies, tokens, cost and failed tries of each retriever that asks; "" where none does.

    Raises:
        InputError: searches.json is damaged.
    """
    if not folder.searches.is_file():
        return ""
    lines = [
        f"{'retriever':<24} {'replies':>9} {'tokens in':>12} {'tokens out':>12} {'cost':>10}  "
        "failed tries"
    ]
    found = read_checked(folder.searches, dict[str, SearchCalls])
    for label, one in found.items():
        calls = add_up_calls(one.calls.values())
        cost = "unknown" if calls.dollars is None else f"${calls.dollars:,.4f}"
        failed = ", ".join(f"{why} {n:,}" for why, n in calls.failed_tries.items())
        lines.append(
            f"{one_line(label, _LONGEST_LABEL):<24} {calls.replies:>9,} "
            f"{calls.prompt_tokens:>12,} {calls.completion_tokens:>12,} {cost:>10}  "
            f"{failed or 'none'}{calls.note and f'; tokens and cost {calls.note}'}"
        )
    return "\n".join(lines)
