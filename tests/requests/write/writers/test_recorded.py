import asyncio
import json

import pytest

from tests.engines import create_engine
from tests.shared import shared
from toolbank.bank.records import Tool
from toolbank.llm.chat import ChatRequest, PolishTask
from toolbank.requests.write.checks import Checker, read_draft, read_polished
from toolbank.requests.write.config import GenerateConfig
from toolbank.system.errors import InputError

TOTAL = Tool(name="shop.total", aliases=("shop.sum",))
TOOLS = (TOTAL, Tool(name="shop.sort"), Tool(name="shop.scale"))
LINE = {
    "id": "shop-1",
    "offered": ["shop.sort", "shop.sum", "shop.gone", "shop.total"],
    "at_most": 2,
    "draft": "Sort the sales of the week. Then add them up.",
    "query": "What did we sell this week, smallest sale first?",
    "tools": ["shop.sort", "shop.sum"],
    "explanation": "Sorted, then added.",
}


def engine(folder, *lines):
    path = folder / "replies.jsonl"
    texts = [one if isinstance(one, str) else json.dumps(one) for one in lines]
    path.write_text("\n".join(texts))
    return create(replies=path)


def create(tools=TOOLS, **settings):
    return create_engine(GenerateConfig(engine="recorded", **settings), tools=tools)


def play(engine, stage, attempt=0):
    request = ChatRequest(attempt, stage, (), {}, PolishTask("", ()))
    return asyncio.run(engine.answer(request)).text


def test_the_offers_are_the_files_and_hold_the_banks_own_names(tmp_path):
    made = engine(tmp_path, LINE, {**LINE, "at_most": 4}, "")
    first, second = made.offers.offer(0), made.offers.offer(1)
    assert first.tools == second.tools == ("shop.sort", "shop.total")
    assert (first.at_most, second.at_most) == (2, 4)
    assert made.missing == {"shop.gone": 2}
    assert made.offers.offer(2) is None


def test_replies_go_through_the_same_reading_and_checks_as_a_models(tmp_path):
    made = engine(tmp_path, LINE)
    draft = read_draft(play(made, "write"))
    checker = Checker(TOOLS, GenerateConfig())
    chosen = checker.check_draft(draft, TOOLS[:2], at_most=2)
    assert [tool.name for tool in chosen] == ["shop.sort", "shop.total"]
    assert draft.draft == LINE["draft"]
    assert draft.explanation == LINE["explanation"]
    assert read_polished(play(made, "polish"), draft.draft) == LINE["query"]


def test_a_draft_may_be_recorded_without_a_change_or_as_declined(tmp_path):
    declined = {**LINE, "draft": "", "query": "", "tools": []}
    made = engine(tmp_path, {**LINE, "query": LINE["draft"]}, declined)
    assert json.loads(play(made, "polish"))["already_good"]
    assert read_polished(play(made, "polish"), LINE["draft"]) == LINE["draft"]
    assert read_draft(play(made, "write", 1)).declined


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ((LINE, "{broken"), r"replies.jsonl: 1 line is broken.\n  line 2: not JSON"),
        ((LINE, "", {**LINE, "tools": None}), r"line 3: .*tools"),
        (({k: v for k, v in LINE.items() if k != "query"},), r"line 1: .*query"),
        (("[1]",), "line 1"),
        ((json.dumps({**LINE, "query": "\ud800"}),), r"line 1: \\ud800 is half"),
        (("",), "no recorded replies"),
    ],
)
def test_broken_files_are_told_by_line(tmp_path, lines, message):
    with pytest.raises(InputError, match=message):
        engine(tmp_path, *lines)


def test_settings_and_files_that_can_not_be_used(tmp_path):
    path = tmp_path / "none.jsonl"
    for settings, message in (
        ({"replies": path}, r"none\.jsonl: cannot"),
        ({}, r"generate\.replies"),
        ({"replies": path, "tools_per_query": {1: 1}}, r"generate\.tools_per_query"),
    ):
        with pytest.raises(InputError, match=message):
            create(**settings)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="not UTF-8"):
        create(replies=path)


def test_the_recorded_numpy_replies_play_in_full():
    names = shared("data/toolbank-names/numpy.txt").read_text().split()
    tools = [Tool(name=name) for name in names]
    made = create(tools, replies=shared("written/numpy.jsonl"))
    assert made.missing == {}
    assert made.offers.offer(639) is not None
    assert made.offers.offer(640) is None
