import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from toolbank.bank.bank import Bank
from toolbank.bank.ranking import draw_ties
from toolbank.bank.records import Ask, Query, Tool
from toolbank.retrievers.protip.plans import (
    SearchTrace,
    ToolPlan,
    divide_plans,
    hold_back,
    interleave,
    search_plans,
    trace_search,
)
from toolbank.retrievers.protip.retriever import (
    choose_threshold,
    measure_ranks,
    score_hits,
)
from toolbank.retrievers.protip.training import (
    PlanCollator,
    PlanExamples,
    mine_negatives,
    plan_loss,
)

# Tools a, b, c, d of the examples worked by hand.
VECTORS = np.array([[3, 0], [0, 4], [1, 1], [-2, 0]], np.float32)


def ties(n_queries, n_tools):
    return draw_ties([""] * n_queries, tuple(map(str, range(n_tools))))


def test_the_loss_of_plans():
    queries = torch.tensor([[3.0, 5.0], [1.0, 0.0]])
    plans = torch.tensor([[0, 1], [2, -1]])
    positives, negatives = torch.zeros((2, 2, 2, 4), dtype=torch.bool)
    positives[[0, 0, 1], [0, 1, 0], [0, 1, 2]] = True
    negatives[0, :, 2:] = negatives[1, 0, 3] = True
    tools = torch.tensor(VECTORS)
    loss = plan_loss(queries, tools, plans, positives, negatives, margin=5.0)
    # x_1 = (3, 5): a is 5 away; c sqrt(20), d past the margin.
    first = 12.5 + ((5 - 20**0.5) ** 2 / 2 + 0) / 2
    # x_2 = (0, 5): b is 1 away; c sqrt(17), d sqrt(29), past the margin.
    second = 0.5 + ((5 - 17**0.5) ** 2 / 2 + 0) / 2
    # The other plan's x_1 = (1, 0): c is 1 away, d 3; a and b are no pair of it.
    third = 0.5 + (5 - 3) ** 2 / 2
    assert loss.item() == pytest.approx((first + second + third) / 3, rel=1e-6)


def test_a_tool_that_lies_on_its_step_has_a_gradient_that_is_finite():
    queries = torch.tensor([[3.0, 0.0]], requires_grad=True)
    negatives = torch.tensor([[[False, True, True, True]]])
    first = torch.tensor([[0]])
    tools = torch.tensor(VECTORS)
    loss = plan_loss(queries, tools, first, ~negatives, negatives, margin=9.0)
    loss.backward()
    assert torch.isfinite(queries.grad).all()


def test_search_takes_the_nearest_subtracts_it_and_goes_on():
    query = np.array([[3, 3.9]], np.float32)
    steps = trace_search(query, VECTORS, ties(1, 4), steps=2, depth=4)
    # From (3, 3.9), b = (0, 4) is sqrt(9.01) away, c sqrt(12.41), a 3.9, d sqrt(40.21).
    assert steps.hits[0, 0].tolist() == [1, 2, 0, 3]
    assert steps.distances[0, 0, 0] == pytest.approx(9.01**0.5, abs=1e-5)
    # Left is (3, -0.1): a is 0.1 away, c sqrt(5.21), d sqrt(25.01); b was taken.
    assert steps.hits[0, 1].tolist() == [0, 2, 3, 1]
    assert steps.distances[0, 1, :3] == pytest.approx([0.1, 5.21**0.5, 25.01**0.5])
    # What is left over the nearest tool's distance.
    assert steps.residuals[0] == pytest.approx([(24.21 / 9.01) ** 0.5, 9.01**0.5 / 0.1])


def test_no_tool_is_taken_twice_and_history_counts_as_taken():
    query = np.array([[30, 0]], np.float32)
    steps = trace_search(query, VECTORS, ties(1, 4), steps=9, depth=1)
    assert steps.hits[0, 0, 0] == 0
    assert sorted(steps.hits[0, :, 0].tolist()) == [0, 1, 2, 3]
    query = np.array([[3, 4]], np.float32)
    after = trace_search(query, VECTORS, ties(1, 4), steps=1, depth=4, history=[[0]])
    # (3, 4) - a = (0, 4) = b.
    assert after.hits[0, 0].tolist() == [1, 2, 3, 0]
    assert after.distances[0, 0, [0, -1]].tolist() == [0, np.inf]


def test_a_plan_ends_before_the_first_step_with_too_small_a_residual():
    steps = SearchTrace(
        hits=np.zeros((2, 3, 1), np.int64),
        distances=np.zeros((2, 3, 1)),
        residuals=np.array([[2.0, 0.5, 2.0], [0.5, 0.4, 0.3]]),
    )
    assert steps.lengths(1.0).tolist() == [1, 1]
    assert steps.lengths(0.45).tolist() == [3, 1]
    assert steps.lengths(1.0, at_least=0).tolist() == [1, 0]


def test_hard_negatives_are_the_nearest_that_are_not_the_plans():
    plans = [ToolPlan("q", (0, 1)), ToolPlan("r", (2,)), ToolPlan("s", (3,))]
    # Of siblings nothing is subtracted from the request.
    siblings = ToolPlan("q", (1, 0), either=True)
    queries = np.array([[3, 5], [1, 0], [0, 0]], np.float32)
    # The fifth tool is no plan's.
    tools = np.vstack([VECTORS, [[0, 0]]]).astype(np.float32)
    mined = mine_negatives(plans, queries, tools, most=2)
    # x_1 = (3, 5): c, then d; x_2 = (0, 5): c, then d; (1, 0): a, then d; (0, 0): c, then a.
    assert mined == [[[2, 3], [2, 3]], [[0, 3]], [[2, 0]]]
    mined = mine_negatives([siblings, *plans[1:]], queries, tools, most=2)
    assert mined[0] == [[2, 3]]


def test_random_negatives_are_never_the_plans_and_new_in_each_epoch():
    plans = [ToolPlan("q", (0, 3)), ToolPlan("r", (5,)), ToolPlan("s", (7, 2, 4))]
    examples = PlanExamples(plans, [[1], [2], [3]], seed=0)
    seen = set()
    for epoch in range(40):
        examples.set_epoch(epoch)
        first = [example["drawn"] for example in examples]
        assert first == [example["drawn"] for example in examples]
        assert [len(drawn) for drawn in first] == [2, 1, 3]
        assert not {0, 3} & set(first[0])
        assert 5 not in first[1]
        seen |= set(first[0])
    # Tools 1 and 6 are no plan's: they would be driven away from all of them.
    assert seen == {2, 4, 5, 7}


def test_a_batch_has_each_tool_once_and_the_others_as_negatives():
    collate = PlanCollator([[10 + i] * (i + 1) for i in range(7)], pad_id=0)
    batch = collate(
        [
            {"query": [1, 2], "plan": ToolPlan("q", (4, 1)), "drawn": [6], "mined": ()},
            {"query": [3], "plan": ToolPlan("r", (1,)), "drawn": [0], "mined": ()},
        ]
    )
    assert batch["tools"]["input_ids"][:, 0].tolist() == [10, 11, 14, 16]
    assert batch["plans"].tolist() == [[2, 1], [1, -1]]
    assert batch["positives"].nonzero().tolist() == [[0, 0, 2], [0, 1, 1], [1, 0, 1]]
    assert batch["negatives"][0].tolist() == [[True, False, False, True]] * 2
    assert batch["negatives"][1, 0].tolist() == [True, False, True, True]
    assert batch["queries"]["attention_mask"].tolist() == [[1, 1], [1, 0]]


def test_mined_negatives_are_those_of_their_step_alone():
    example = {"query": [1], "plan": ToolPlan("q", (4, 1)), "drawn": ()}
    mined = [[5, 6], [2, 6]]
    batch = PlanCollator([[i] for i in range(7)], 0)([{**example, "mined": mined}])
    own = batch["tools"]["input_ids"][:, 0]
    assert [own[step].tolist() for step in batch["negatives"][0]] == mined


def test_an_ask_of_siblings_is_one_step_that_each_of_them_serves():
    asks = tuple(
        Ask(tool=name, kind="plain", ask=text)
        for name, text in (("c", "both"), ("a", "both"), ("b", "one"), ("e", "other"))
    )
    query = Query(id="q", query="d, then b", tools=("d", "b"), split="train")
    bank = Bank(tuple(Tool(name=name) for name in "abcde"), (query,), {}, asks)
    plans, _ = divide_plans(bank, seed=0)
    assert [(plan.tools, plan.steps) for plan in plans] == [
        *[((3, 1), 2), ((0, 2), 1), ((1,), 1), ((4,), 1)]
    ]
    examples = PlanExamples(plans, [[0]] * 4, seed=0)
    for epoch in range(20):
        examples.set_epoch(epoch)
        (drawn,) = examples[1]["drawn"]
        assert drawn not in (0, 2)
    batch = PlanCollator([[i] for i in range(5)], pad_id=0)([examples[0], examples[1]])
    own = batch["tools"]["input_ids"][:, 0]
    assert own[batch["positives"][1, 0]].tolist() == [0, 2]
    assert not set(own[batch["negatives"][1, 0]].tolist()) & {0, 2}
    assert (batch["plans"][1] >= 0).tolist() == [True, False]
    assert not batch["positives"][1, 1].any()


def test_siblings_are_drawn_to_the_request_alike():
    queries = torch.tensor([[1.0, 0.0]])
    one_of = torch.tensor([[[False, False, True, True]]])
    none_of = torch.tensor([[[True, False, False, False]]])
    plans = torch.tensor([[2]])
    tools = torch.tensor(VECTORS, requires_grad=True)
    loss = plan_loss(queries, tools, plans, one_of, none_of, margin=5.0)
    # c is 1 away and d is 3; a, which is none of it, is 2.
    assert loss.item() == pytest.approx((0.5 + 4.5) / 2 + (5 - 2) ** 2 / 2)
    loss.backward()
    assert tools.grad.norm(dim=1).tolist() == pytest.approx([3, 0, 0.5, 1.5])


def test_hits_have_the_log_odds_of_their_ranks_which_never_rise():
    hits = np.array([[0, 1, 2], [3, 0, 4], [5, 6, 7]])
    plans = [(0, 2), (3, 4), (1,)]
    # Right are 2, 0 and 2 of 3.
    expected = np.log([2.5 / 1.5, 0.5 / 3.5, 0.5 / 3.5])
    np.testing.assert_allclose(measure_ranks(hits, plans), expected)
    scores = score_hits(np.array([[4, 1, 3]]), np.array([2.0, -1.0]), n_tools=5)
    assert scores[0, 4] > scores[0, 1] > scores[0, 3]
    np.testing.assert_allclose(scores[0, [4, 1, 3]], [2, -1, -1], atol=1e-3)
    assert np.isinf(scores[0, [0, 2]]).all()


def test_blocks_of_requests_are_searched_as_all_at_once(monkeypatch):
    random = np.random.default_rng(0)
    queries = random.normal(size=(7, 3)).astype(np.float32)
    tools = random.normal(size=(5, 3)).astype(np.float32)
    history = [[], [1], [4, 0], [], [2], [], [3]]
    whole = trace_search(queries, tools, ties(7, 5), steps=3, depth=4, history=history)
    # As many scores as two requests have.
    monkeypatch.setattr("toolbank.bank.ranking._BLOCK_SCORES", 60)
    parts = trace_search(queries, tools, ties(7, 5), steps=3, depth=4, history=history)
    for name in ("hits", "distances", "residuals"):
        np.testing.assert_array_equal(getattr(parts, name), getattr(whole, name))
    none = trace_search(queries[:0], tools, ties(0, 5), steps=3, depth=4)
    assert none.hits.shape == (0, 3, 4)
    indices, scores = interleave(none.hits, none.lengths(1.0), n_tools=5, k=3)
    assert indices.shape == scores.shape == (0, 3)


@pytest.mark.parametrize("threshold", [0.0, 0.8, 1.0, 1.2, 9.0])
def test_steps_after_the_end_of_every_plan_change_nothing(threshold):
    random = np.random.default_rng(1)
    queries, tools = random.normal(size=(6, 4)), random.normal(size=(9, 4))
    for some in (queries, queries[:1]):
        every = ties(len(some), 9)
        whole = trace_search(some, tools, every, steps=5, depth=9)
        wanted = interleave(whole.hits, whole.lengths(threshold), 9, 9)
        found = search_plans(some, tools, every, 5, threshold, 9)
        np.testing.assert_array_equal(found[0], wanted[0])


def test_a_tenth_is_held_back_of_plans_whose_tools_others_use():
    plans = [ToolPlan(f"q{i}", (i % 4, 4)) for i in range(30)]
    plans += [ToolPlan(f"only {i}", (i, 4)) for i in range(5, 15)]
    train, held = hold_back(plans, seed=1)
    assert (len(train), len(held)) == (36, 4)
    assert not set(train) & set(held)
    assert {i for p in plans for i in p.tools} == {i for p in train for i in p.tools}
    assert hold_back(plans, seed=1) == (train, held)
    assert hold_back(plans, seed=2)[1] != held
    assert hold_back(plans[30:], seed=1) == (plans[30:], [])


def test_the_end_is_no_worse_than_any_other():
    random = np.random.default_rng(0)
    hits = np.array([random.permutation(9)[:4] for _ in range(30)])[:, :, None]
    steps = SearchTrace(hits, np.zeros(hits.shape), random.random((30, 4)))
    plans = [tuple(random.permutation(9)[: random.integers(1, 4)]) for _ in range(30)]

    def mean_f1(least):
        scores = []
        for row, n, plan in zip(hits, steps.lengths(least), plans, strict=True):
            right = len({*row[:n, 0]} & {*plan})
            scores.append(2 * right / (n + len(plan)))
        return np.mean(scores)

    best = mean_f1(choose_threshold(steps, plans))
    choices = np.quantile(steps.residuals, np.linspace(0, 1, 100), method="lower")
    assert best == pytest.approx(max(mean_f1(choice) for choice in choices))


@given(st.data())
def test_interleaving_is_what_walking_through_the_lists_gives(data):
    n_tools = data.draw(st.integers(1, 7))
    k = data.draw(st.integers(1, n_tools))
    depth = data.draw(st.integers(k, n_tools))
    most = data.draw(st.integers(1, 4))
    length = data.draw(st.integers(1, most))
    tools = st.permutations(range(n_tools))
    lists = [data.draw(tools)[:depth] for _ in range(most)]
    walked = [lists[j][rank] for rank in range(depth) for j in range(length)]
    indices, scores = interleave(np.array([lists]), np.array([length]), n_tools, k)
    assert indices[0].tolist() == list(dict.fromkeys(walked))[:k]
    np.testing.assert_allclose(scores[0], 1 / np.arange(1, k + 1), rtol=1e-6)
