"""The engines that write asks without a model."""

import pytest

from tests.requests.asks.test_write import write
from tests.shared import shared
from tests.world import SHOP, asks_for, write_lines
from toolbank.bank.records import Tool
from toolbank.llm.engines import ENGINES
from toolbank.llm.engines.kind import EngineContext
from toolbank.requests.asks import AsksConfig
from toolbank.requests.asks.write import AskPrompts
from toolbank.sources.collect import collect_tools
from toolbank.sources.python.settings import PythonSource
from toolbank.system.errors import InputError
from toolbank.testing.engines import CHECKS, EngineCase

TEXTS = list(asks_for("any").values())


def record(folder, *lines):
    path = write_lines(folder / "asks.jsonl", lines)
    return AsksConfig(engine="recorded", replies=path)


def by_tool(written):
    found = {}
    for ask in written.value.asks:
        found.setdefault(ask.tool, {})[ask.kind] = ask.ask
    return found


def lines_for(*tools):
    return [{"tool": one.name, "asks": [*asks_for(one.name).values()]} for one in tools]


def test_recorded_asks_are_played_in_the_order_of_their_kinds(tmp_path):
    config = record(tmp_path, *lines_for(*SHOP))
    asks = {tool.name: asks_for(tool.name) for tool in SHOP}
    assert by_tool(write(tmp_path, config)) == asks
    wanted = config.model_copy(update={"kinds": ("terse",), "per_tool": 1})
    terse = {name: {"terse": kinds["terse"]} for name, kinds in asks.items()}
    assert by_tool(write(tmp_path, wanted)) == terse


def test_which_tools_are_siblings_is_what_the_file_says(tmp_path):
    first, second, third = (tool.name for tool in SHOP[:3])
    line = {"tool": first, "siblings": [second, "shop.gone"], "asks": TEXTS}
    written = write(tmp_path, record(tmp_path, line, {"tool": second, "asks": ["x"]}))
    assert by_tool(written)[first] == by_tool(written)[second]
    assert third not in by_tool(written)
    assert written.value.content["missing_tools"] == {"shop.gone": 1}
    assert any("not in the bank: 1 tool" in line for line in written.problems)
    assert any("without an ask: 14 tools of 16" in line for line in written.problems)


def test_recorded_asks_that_are_not_played_are_counted(tmp_path):
    first, second = lines_for(*SHOP[:2])
    first["asks"].append("One ask more than there are kinds.")
    again = {**second, "asks": ["Another line of a tool that stood above."]}
    problems = write(tmp_path, record(tmp_path, first, second, again)).problems
    assert any("2 recorded asks of 2 tools" in line for line in problems)
    problems = write(tmp_path, record(tmp_path, second)).problems
    assert not any("not used" in line for line in problems)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({"tool": "shop.gone", "asks": ["x"]}, "none of its tools, such as shop.gone"),
        ({"tool": SHOP[0].name, "asks": []}, "line 1: asks"),
        ({"tool": SHOP[0].name}, "line 1: asks"),
        (None, r"asks\.replies"),
    ],
)
def test_a_file_that_cannot_be_played_is_refused(tmp_path, line, said):
    config = record(tmp_path, line) if line else AsksConfig(engine="recorded")
    with pytest.raises(InputError, match=said):
        write(tmp_path, config)


def test_rules_write_plain_and_terse_asks_and_say_that_they_write_no_other(tmp_path):
    sort = Tool(name="box.sort", summary="Sort an array of letters by month.")
    written = write(tmp_path, AsksConfig(engine="rules"), [sort, Tool(name="box.mute")])
    [(name, asks)] = by_tool(written).items()
    assert name == "box.sort"
    assert asks.keys() == {"plain", "terse"}
    assert all("month" in text for text in asks.values())
    assert any("larger 2, voiced 2" in line for line in written.problems)


def test_rules_asks_follow_from_the_seed_alone(tmp_path):
    config = AsksConfig(engine="rules")
    one, same, other = (
        by_tool(write(tmp_path / str(n), config, seed=seed))
        for n, seed in enumerate((1, 1, 2))
    )
    assert one == same
    assert one != other


@pytest.fixture(scope="module")
def numpy_tools(tmp_path_factory):
    source = PythonSource(type="python", package="numpy")
    return collect_tools((source,), tmp_path_factory.mktemp("cache")).tools


def test_asks_that_a_model_wrote_for_numpy_pass_but_for_one(tmp_path, numpy_tools):
    config = AsksConfig(engine="recorded", replies=shared("asks/numpy.jsonl"))
    written = write(tmp_path, config, numpy_tools)
    [lost] = written.value.content["not_accepted"]
    assert (lost["tool"], lost["reason"]) == ("numpy.tensordot", "near-duplicate")
    assert len(written.value.asks) == 4 * 536 - 1


def test_rules_find_asks_for_nearly_every_tool_of_numpy(tmp_path, numpy_tools):
    written = write(tmp_path, AsksConfig(engine="rules"), numpy_tools)
    counts = written.value.content["counts"]
    assert counts["tools"] >= 520
    assert counts["by_kind"]["plain"]["accepted"] >= 500
    assert counts["by_kind"]["terse"]["accepted"] >= 400


def case_of(name, folder):
    config = AsksConfig(engine=name)
    if name == "recorded":
        config = record(folder, *({"tool": one.name, "asks": TEXTS} for one in SHOP))
    prompts = AskPrompts(SHOP, config, "shop")
    return EngineCase(
        ENGINES.find(name, ""),
        config,
        EngineContext(SHOP, 0, folder),
        requests=[prompts.ask((tool,)) for tool in SHOP],
        shaping=[EngineContext(SHOP, 1, folder)] if name == "rules" else [],
    )


@pytest.mark.parametrize("name", ["recorded", "rules"])
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_they_do_what_every_engine_does(check, name, tmp_path):
    check(case_of(name, tmp_path))
