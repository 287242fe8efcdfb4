"""Compare a bank's queries pairwise with their drafts or with another dataset."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from toolbank.bank.bank import Bank
from toolbank.llm.accounts import join_reasons
from toolbank.llm.chat import ChatReply, ChatRequest, Rejection
from toolbank.llm.engines import find_model
from toolbank.llm.engines.kind import EngineContext
from toolbank.llm.journal import Journal
from toolbank.llm.pool import Pool
from toolbank.llm.step import (
    SAMPLED,
    SampleCalls,
    Step,
    StepAnswer,
    StepResult,
    StepRun,
    StepSample,
    ask_all,
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
from toolbank.system import aio
from toolbank.system.errors import ToolbankError
from toolbank.system.numbers import count
from toolbank.system.terminal import command

ORDERS = 2
"""In how many orders a pair is shown: its query first, then second."""

Winner = str | Rejection
"""The better text, "A" (the first), "B" or "tie"; or why nobody says."""


@dataclass(frozen=True)
class Winners:
    """What a judge said: winners and keys in the journal by pair, criteria with both orders in turn.

    `missing` counts those without a reply, for which another run may have one.
    """

    of: Sequence[Sequence[Winner]]
    keys: Sequence[Sequence[str]] | None = None
    missing: int = 0


class JudgeStep(Step[str, dict[str, Any]]):
    """Which text of a pair is better, by each criterion, in both orders.

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
            (number, make_request(template, number, criterion, first, second))
            for number, pair in enumerate(pairs)
            if not pair.is_identical
            for criterion in config.criteria
            for first, second in (
                (pair.query.text, pair.other.text),
                (pair.other.text, pair.query.text),
            )
        ]
        super().__init__(config, len(self._calls))
        self._pairs = pairs

    def request(self, number: int) -> ChatRequest:
        """Ask which text is better."""
        return self._calls[number][1]

    def read(self, number: int, reply: ChatReply) -> Winner:  # noqa: ARG002
        """The winner."""
        return read_winner(reply)

    def fold(self, run: StepRun) -> StepResult[dict[str, Any]]:
        """Judgements of all pairs; an order without a reply counts as failed.

        Raises:
            ToolbankError: no call was answered.
        """
        engine = run.pool.engine
        failed = self.failures
        answered = len(self.answers) - failed.total()
        if failed and not answered and not run.waiting:
            raise ToolbankError(
                f"judge: no call was answered ({count(failed.total(), 'call')}), the last with: "
                f"{run.last_failure} Run the same command again when the endpoint answers."
            )
        gone = StepAnswer[str](Rejection(run.pool.stop.cause or "budget"))
        winners: list[list[Winner]] = [[] for _ in self._pairs]
        keys: list[list[str]] = [[] for _ in self._pairs]
        for call, (number, request) in enumerate(self._calls):
            winners[number].append(self.answers.get(call, gone).value)
            keys[number].append(request.key(engine.identity))
        missing = self.total - answered
        said = Winners(winners, keys, missing)
        result = describe_winners(self._pairs, self.config, engine.model, said)
        rejected = Counter(
            one.value.reason
            for one in self.answers.values()
            if isinstance(one.value, Rejection) and not one.failed
        )
        problems = [*result.problems]
        if missing and not run.waiting:
            problems.append(
                f"verdicts missing: {missing:,}; the next run asks for them again"
            )
        if rejected:
            problems.append(
                f"replies without a verdict: {join_reasons(rejected)}. They are in the journal, and "
                "are not asked for again. Those of one query, by its id:\n"
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
    """Comparisons of a draft with itself; `is_same` where the pairs stay as they were.

    Raises:
        InputError: the prompt or an example can't be used.
    """
    template = PromptTemplate(TEMPLATE)
    requests = [
        make_request(template, number, criterion, draft.draft, draft.draft)
        for number, draft in enumerate(sample_drafts(domain))
        for criterion in config.criteria
    ][:SAMPLED]
    answer = {"reason": SAMPLE_REASON, "winner": "A"}
    calls = SampleCalls("judge", requests, [answer], "comparison")
    total = pairs * len(config.criteria) * ORDERS
    return StepSample(total, (calls,), is_same=is_same)


def judge_bank(
    bank: Bank, config: JudgeConfig, *, seed: int, journal: Journal
) -> StepResult[dict[str, Any]]:
    """Judge pairs in both orders by every criterion; gives the content of judge.json.

    Two verdicts that differ by order make a tie. Pairs of the same text twice are counted apart
    and judged by nobody. Keys of the content: `judge`, `heuristic`, `against`, `n` (pairs without
    those), `identical` (those), `method`, `criteria` (a summary each), `calls_failed` (any that a
    new run may mend), `lengths` (wins by how much longer the query is) and `pairs` (ids, texts, the
    verdict of each order and the calls' keys in the journal).

    Raises:
        InputError: the other dataset, the prompt or the engine's settings can't be used.
        ToolbankError: the endpoint is down or refuses.
    """
    pairs = draw_pairs(bank, config, seed)
    kind = find_model(config)
    if kind is None:
        said = Winners([_ask_heuristic(pair, config) for pair in pairs])
        return describe_winners(pairs, config, NAME, said)
    pool = Pool(kind, config, journal, EngineContext(seed=seed))
    step = JudgeStep(pairs, config)
    return aio.run(ask_all(step, pool), uvloop=True)


def describe_winners(
    pairs: Sequence[Pair], config: JudgeConfig, judge: str, said: Winners
) -> StepResult[dict[str, Any]]:
    """What a judge said of all pairs, as `judge_bank` has it."""
    rows = [_read_judgements(config, winners) for winners in said.of]
    identical = sum(pair.is_identical for pair in pairs)
    by_model = said.keys is not None
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
        "calls_failed": said.missing,
        "pairs": [
            _describe(pair, row, said.keys[number] if said.keys else ())
            for number, (pair, row) in enumerate(zip(pairs, rows, strict=True))
        ],
    }
    message = f"{count(len(pairs) - identical, 'pair')} by {judge}"
    if identical:
        message += f", and {identical:,} of the same text twice that nobody judged"
    no_draft = "no request has a draft; name with judge.against what to hold the requests against"
    return StepResult(content, message, problems=() if pairs else (no_draft,))


def keep_comparisons(
    content: dict[str, Any], earlier: Mapping[str, Any], bank: Bank
) -> dict[str, Any]:
    """The content of judge.json with the comparisons of an earlier one, as `others`.

    A comparison is the same where one judge compared the same texts by the same criteria, and was
    asked the same, with one prompt and seed; then the new one replaces it. `stale` marks those whose requests the bank doesn't have any more.
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
    """Judgements of one pair, one a criterion; none where its texts are the same."""
    if not answers:
        return []
    orders = zip(answers[::ORDERS], answers[1::ORDERS], strict=True)
    return [
        Judgement(
            criterion,
            _verdict(forward, query_is="A"),
            _verdict(backward, query_is="B"),
            tuple(
                one.reason for one in (forward, backward) if isinstance(one, Rejection)
            ),
        )
        for criterion, (forward, backward) in zip(config.criteria, orders, strict=True)
    ]


def _verdict(winner: Winner, query_is: str) -> Verdict | None:
    if isinstance(winner, Rejection):
        return None
    if winner == "tie":
        return "tie"
    return "win" if winner == query_is else "lose"


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
