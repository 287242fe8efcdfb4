"""Have one grader or several grade requests, and a third one those on which two disagree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from toolbank.bank.bank import Bank, Label
from toolbank.bank.split import STRATA, find_stratum, sample_queries
from toolbank.llm.engines import find_engine
from toolbank.llm.engines.kind import EngineContext
from toolbank.llm.step import StepResult, run_step
from toolbank.requests.verify.grade_step import Grades, GradeStep
from toolbank.requests.verify.gradings import read_tools
from toolbank.requests.verify.holes import HoleCheck, HoleFigures, choose_retrievers

if TYPE_CHECKING:
    from toolbank.bank.records import Query
    from toolbank.llm.journal import Journal
    from toolbank.requests.verify import VerifyConfig
    from toolbank.requests.verify.candidates import Candidate
    from toolbank.requests.verify.further import FurtherTools
    from toolbank.requests.verify.gradings import Grading
    from toolbank.retrievers.kind import RetrieverConfig


@dataclass(frozen=True)
class Panel:
    """The graders of a recipe, and what they need to grade requests of a bank.

    The requests that no tool should fit are among them. `pooled` are the candidates of each request; without `further` there is no second call.
    """

    bank: Bank
    config: VerifyConfig
    domain: str
    seed: int
    journal: Journal
    pooled: Mapping[str, Sequence[Candidate]]
    further: FurtherTools | None

    def grade(self) -> StepResult[Grades]:
        """Grade all requests, or a sample of them.

        Keys of the content: `model` and `prompt_hash` of the first grader; of all graders together `not_graded`, a
        row with the reason for each request, `dropped_alternatives` by reason, and `second_call`:
        how many requests had one, how many of them its tools changed, and how many free answers
        matched the catalogue by name, by description or not. With several graders also `panel`, how
        many requests each graded, and `disagreements`, how many of the requests that the first two
        graded they graded differently; and `sample`, if there is one.

        Raises:
            InputError, ToolbankError: as of `run_step`.
        """
        queries, graders = self._choose(), self.config.by_grader()
        both = [one for one in graders if not one.is_third]
        for one in both[:-1]:
            # The batches of both are answered at the same time.
            options = find_engine(one).send_only(one)
            if options != one.options:
                self._ask(one.model_copy(update={"options": options}), queries)
        results = [self._ask(one, queries) for one in both]
        content: dict[str, Any] = {}
        if len(graders) > 1:
            n, differing = _compare([one.value.gradings for one in results])
            content["disagreements"] = {"requests": len(differing), "of": n}
            rest = [query for query in queries if query.id in differing]
            if rest and not any(one.waiting for one in results):
                results += [self._ask(one, rest) for one in graders if one.is_third]
            content["panel"] = [
                {"model": one.value.model, "requests": len(one.value.gradings)}
                for one in results
            ]
        if len(queries) < len(self._queries):
            content["sample"] = _describe_sample(queries, self._queries)
        joined = _join(results)
        value = joined.value
        own = {
            "model": value.model,
            "prompt_hash": value.prompt_hash,
            "not_graded": value.lost,
            "dropped_alternatives": dict(sorted(value.count_dropped().items())),
            **({"second_call": value.count_second_calls()} if self.further else {}),
        }
        return replace(joined, value=replace(value, content=own | content))

    def check_holes(
        self,
        labels: Sequence[Label],
        grades: Grades,
        retrievers: Iterable[RetrieverConfig],
    ) -> StepResult[HoleFigures | None]:
        """Have the first grader grade what nobody has seen, and sum up the hole check.

        `labels` are the merged ones, and `grades` those of all graders.
        """
        config = self.config
        seen = {one.query: set[str]() for one in grades.gradings}
        for row in chain(*self.pooled.values(), grades.further):
            if row.query in seen:
                seen[row.query].add(row.tool)
        pooling = choose_retrievers(retrievers)
        check = HoleCheck(self.bank, labels, seen, pooling, config.holes, self.seed)
        queries, pooled = check.to_grade
        asking = replace(self, pooled=pooled, further=None)
        graded = asking._ask(config.by_grader()[0], queries, again=True)
        given = {one.query: one.labels for one in graded.value.gradings}
        return StepResult(
            None if graded.waiting else check.measure(given),
            graded.message and f"hole check: {graded.message}",
            graded.lacks and f"hole check: {graded.lacks}",
            graded.problems,
            waiting=graded.waiting,
            ended_early=graded.ended_early,
        )

    def _choose(self) -> Sequence[Query]:
        size = self.config.sample
        if size is None or find_engine(self.config.by_grader()[0]).plays_back:
            return self._queries
        return sample_queries(self._queries, size, self.seed)

    @property
    def _queries(self) -> tuple[Query, ...]:
        return (*self.bank.queries, *self.bank.missing)

    def _ask(
        self, config: VerifyConfig, queries: Sequence[Query], *, again: bool = False
    ) -> StepResult[Grades]:
        kind = find_engine(config)
        make_step = partial(
            GradeStep,
            replace(self.bank, queries=tuple(queries)),
            self.pooled,
            config,
            self.domain,
            self.seed,
            None if kind.plays_back else self.further,
            by=config.grader if kind.plays_back else "model",
            again=again,
        )
        context = EngineContext(self.bank.tools, self.seed, self.journal.path.parent)
        return run_step(config, self.journal, context, make_step)


def _compare(graded: Sequence[Sequence[Grading]]) -> tuple[int, set[str]]:
    """Count the requests that both graded, and find those that they graded differently."""
    first, second = (
        {one.query: read_tools(one.labels) for one in some} for some in graded
    )
    both = first.keys() & second.keys()
    return len(both), {query for query in both if first[query] != second[query]}


def _join(results: Sequence[StepResult[Grades]]) -> StepResult[Grades]:
    """Join the results of several graders, each of whose messages then begins with its model."""
    if len(results) == 1:
        return results[0]
    values = [one.value for one in results]
    named = [(one.value.model, one) for one in results]
    further = {
        (row.query, row.tool): row for one in reversed(values) for row in one.further
    }
    value = replace(
        values[0],
        gradings=[grading for one in values for grading in one.gradings],
        graded=[request for one in values for request in one.graded],
        further=list(further.values()),
        lost=[{**row, "model": one.model} for one in values for row in one.lost],
    )
    return StepResult(
        value,
        "; ".join(f"{model}: {one.message}" for model, one in named if one.message),
        "; ".join(f"{model}: {one.lacks}" for model, one in named if one.lacks),
        tuple(f"{model}: {said}" for model, one in named for said in one.problems),
        waiting="\n".join(dict.fromkeys(one.waiting for one in results if one.waiting)),
        ended_early=next((one.ended_early for one in results if one.ended_early), None),
    )


def _describe_sample(
    drawn: Sequence[Query], queries: Sequence[Query]
) -> dict[str, Any]:
    of, n = (Counter(map(find_stratum, some)) for some in (queries, drawn))
    strata = [
        {"split": split, "tools": tools, "drawn": n[split, tools], "of": total}
        for (split, tools), total in sorted(of.items())
    ]
    sizes = {"size": len(drawn), "of": len(queries)}
    return {**sizes, "by": STRATA, "strata": strata}
