"""Compare a bank's queries pairwise with their drafts or with another dataset."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from toolbank.bank.bank import Bank
from toolbank.llm.accounts import join_reasons
from toolbank.llm.chat import ChatReply, ChatRequest, Rejection
from toolbank.llm.engines import find_model
from toolbank.llm.engines.kind import EngineContext
from toolbank.llm.journal import Journal
from toolbank.llm.step import (
    SAMPLE_SIZE,
    SampleCalls,
    Step,
    StepAnswer,
    StepResult,
    StepRun,
    StepSample,
    run_step,
)
from toolbank.llm.templates import PromptTemplate
from toolbank.requests.judge.judges import (
    NAME,
    READ_BY_EYE,
    TEMPLATE,
    JudgeConfig,
    compare,
    make_request,
    read_features,
    read_winner,
)
from toolbank.requests.judge.summary import (
    METHOD,
    Judgement,
    Pair,
    Verdict,
    compare_lengths,
    draw_pairs,
    summarise,
)
from toolbank.requests.write.prompts import SAMPLE_REASON, sample_drafts
from toolbank.system.errors import ToolbankError
from toolbank.system.numbers import count
from toolbank.system.terminal import command

ORDERS = 2
"""How often a pair is shown: with its query first, and with its query second."""

Winner = str | Rejection
"""The better text, "A" (the first), "B" or "tie"; or why there is no verdict."""

_QUERY_FIRST: Mapping[Winner, Verdict] = {"A": "win", "B": "lose", "tie": "tie"}
_QUERY_SECOND: Mapping[Winner, Verdict] = {"A": "lose", "B": "win", "tie": "tie"}


class JudgeStep(Step[str, dict[str, Any]]):
    """Compare the texts of each pair by each criterion, in both orders.

    The result is the content of judge.json.

    Raises:
        InputError: the prompt isn't there.
    """

    config: JudgeConfig
    what = "verdicts"
    done = "given"

    def __init__(self, pairs: Sequence[Pair], config: JudgeConfig) -> None:
        template = PromptTemplate(TEMPLATE)
        self._calls: list[tuple[int, ChatRequest]] = [
            (number, make_request(template, number, criterion, first, second, meaning))
            for number, pair in enumerate(pairs)
            if not pair.is_identical
            for criterion, meaning in config.explained.items()
            for first, second in (
                (pair.query.text, pair.other.text),
                (pair.other.text, pair.query.text),
            )
        ]
        super().__init__(config, len(self._calls))
        self._pairs = pairs

    def request(self, number: int) -> ChatRequest:
        """Make the request that compares two texts."""
        return self._calls[number][1]

    def read(self, number: int, reply: ChatReply) -> Winner:  # noqa: ARG002
        """Read the winner."""
        return read_winner(reply)

    def fold(self, run: StepRun) -> StepResult[dict[str, Any]]:
        """Collect the judgements of all pairs; an order without a reply counts as failed.

        Raises:
            ToolbankError: no call was answered.
        """
        engine = run.pool.engine
        failed = self.failures
        answered = len(self.answers) - failed.total()
        if failed and not answered and not run.waiting:
            raise ToolbankError(
                f"judge: none of {count(failed.total(), 'call')} was answered. The last failure: "
                f"{run.last_failure} Run the same command again when the endpoint answers."
            )
        gone = StepAnswer[str](Rejection(run.pool.stop.cause or "budget"))
        winners: list[list[Winner]] = [[] for _ in self._pairs]
        keys: list[list[str]] = [[] for _ in self._pairs]
        for call, (number, request) in enumerate(self._calls):
            winners[number].append(self.answers.get(call, gone).value)
            keys[number].append(request.key(engine.identity))
        missing = self.total - answered
        result = describe_winners(
            self._pairs, self.config, engine.model, winners, keys, missing
        )
        rejected = Counter(
            one.value.reason
            for one in self.answers.values()
            if isinstance(one.value, Rejection) and not one.failed
        )
        problems = [*result.problems]
        if missing and not run.waiting:
            problems.append(
                f"verdicts missing: {missing:,}; the next run requests them again"
            )
        if rejected:
            problems.append(
                f"replies without a verdict: {join_reasons(rejected)}. They are in the journal and "
                "are not requested again. To see those of one query:\n"
                f"  {command('show', run.pool.folder)} ID"
            )
        return replace(
            result,
            lacks=f"{count(missing, 'verdict')} missing" if missing else "",
            problems=tuple(problems),
            failed=join_reasons(failed),
        )


def sample_verdicts(
    config: JudgeConfig, domain: str, pairs: int, *, is_same: bool
) -> StepSample:
    """Sample comparisons of a draft with itself; `is_same` if the pairs do not change.

    Raises:
        InputError: the prompt or an example can't be used.
    """
    template = PromptTemplate(TEMPLATE)
    requests = [
        make_request(template, number, criterion, draft.draft, draft.draft, meaning)
        for number, draft in enumerate(sample_drafts(domain))
        for criterion, meaning in config.explained.items()
    ][:SAMPLE_SIZE]
    answer = {"reason": SAMPLE_REASON, "winner": "A"}
    calls = SampleCalls("judge", requests, [answer], "comparison")
    total = pairs * len(config.criteria) * ORDERS
    return StepSample(total, (calls,), is_same=is_same)


def judge_bank(
    bank: Bank,
    config: JudgeConfig,
    *,
    seed: int,
    journal: Journal,
    matches: Mapping[str, str] | None = None,
) -> StepResult[dict[str, Any]]:
    """Judge pairs in both orders by every criterion; returns the content of judge.json.

    `matches` are as in `draw_pairs`.

    Verdicts that differ by order make a tie. Pairs of identical texts are counted and not judged.
    Keys of the content: `judge`, `heuristic`, `against`, `n` (judged pairs), `identical` (the
    others), `method`, `criteria` (a summary each), `calls_failed` (which a new run may repair),
    `lengths` (wins by relative length of the query) and `pairs` (ids, texts, the verdict of each
    order and the calls' keys in the journal).

    Raises:
        InputError: the other dataset, the prompt or the engine's settings can't be used.
        ToolbankError: the endpoint is down or refuses.
    """
    pairs = draw_pairs(bank, config, seed, matches)
    kind = find_model(config)
    if kind is None:
        winners = [_ask_heuristic(pair, config) for pair in pairs]
        return describe_winners(pairs, config, NAME, winners)
    context = EngineContext(seed=seed)
    return run_step(config, journal, context, lambda _: JudgeStep(pairs, config))


def describe_winners(
    pairs: Sequence[Pair],
    config: JudgeConfig,
    judge: str,
    winners: Sequence[Sequence[Winner]],
    keys: Sequence[Sequence[str]] | None = None,
    missing: int = 0,
) -> StepResult[dict[str, Any]]:
    """Describe the winners of all pairs, as `judge_bank` returns them.

    `winners`, and `keys` of a model's calls, are by pair: its criteria, with both orders in turn.
    `missing` counts the calls without a reply.
    """
    rows = [_read_judgements(config, of_pair) for of_pair in winners]
    identical = sum(pair.is_identical for pair in pairs)
    by_model = keys is not None
    content: dict[str, Any] = {
        "judge": judge,
        "heuristic": not by_model,
        "against": config.against if config.against == "draft" else config.against.name,
        "n": len(pairs) - identical,
        "identical": identical,
        "method": METHOD,
        **({} if by_model else {"read_by_eye": READ_BY_EYE}),
        "criteria": {
            criterion: asdict(summarise(row[position] for row in rows if row))
            for position, criterion in enumerate(config.criteria)
        },
        "lengths": [asdict(part) for part in compare_lengths(pairs, rows)],
        "calls_failed": missing,
        "pairs": [
            _describe(pair, row, keys[number] if keys else ())
            for number, (pair, row) in enumerate(zip(pairs, rows, strict=True))
        ],
    }
    message = f"{count(len(pairs) - identical, 'pair')} by {judge}"
    if identical:
        message += f"; {identical:,} of identical texts are not judged"
    no_draft = (
        "no request has a draft. Set judge.against to what to compare the requests with"
    )
    return StepResult(content, message, problems=() if pairs else (no_draft,))


def keep_comparisons(
    content: dict[str, Any], earlier: Mapping[str, Any], bank: Bank
) -> dict[str, Any]:
    """Add the comparisons of an earlier judge.json to the content, as `others`.

    The content replaces an earlier comparison of the same texts by the same judge, criteria, prompt
    and seed. `stale` marks comparisons of requests that the bank no longer has.
    """
    before = [earlier, *earlier.get("others", ())] if earlier else []
    new = _identify(content)
    texts = {query.query for query in bank.queries}
    others = [
        {
            **{key: one[key] for key in one if key not in ("others", "calls")},
            "stale": any(pair["query"] not in texts for pair in one["pairs"]),
        }
        for one in before
        if _identify(one) != new
    ]
    return {**content, **({"others": others} if others else {})}


def _identify(content: Mapping[str, Any]) -> tuple[Any, ...]:
    pairs = [
        (pair["query"], pair["other"], *pair.get("requests", ()))
        for pair in content["pairs"]
    ]
    return content["judge"], content["against"], [*content["criteria"]], pairs


def _ask_heuristic(pair: Pair, config: JudgeConfig) -> list[Winner]:
    if pair.is_identical:
        return []
    query, other = (
        read_features(side.text, side.tools) for side in (pair.query, pair.other)
    )
    return [
        compare(criterion, *both)
        for criterion in config.criteria
        for both in ((query, other), (other, query))
    ]


def _read_judgements(config: JudgeConfig, answers: Sequence[Winner]) -> list[Judgement]:
    """Judgements of one pair, one for each criterion; none if its texts are identical."""
    if not answers:
        return []
    orders = zip(answers[::ORDERS], answers[1::ORDERS], strict=True)
    return [
        Judgement(
            criterion,
            _QUERY_FIRST.get(forward),
            _QUERY_SECOND.get(backward),
            tuple(
                one.reason for one in (forward, backward) if isinstance(one, Rejection)
            ),
        )
        for criterion, (forward, backward) in zip(config.criteria, orders, strict=True)
    ]


def _describe(
    pair: Pair, judgements: Sequence[Judgement], requests: Sequence[str]
) -> dict[str, Any]:
    return {
        "query_id": pair.query.id,
        "other_id": pair.other.id,
        "query": pair.query.text,
        "other": pair.other.text,
        "verdicts": {
            row.criterion: {
                "query_first": row.forward,
                "query_second": row.backward,
                "verdict": row.verdict,
            }
            for row in judgements
        },
        "requests": list(requests),
    }
