import pytest

from tests.world import SHOP
from toolbank.bank.records import Tool, group_siblings
from toolbank.requests.asks import AsksConfig
from toolbank.requests.asks.prompts import AskPrompts, Neighbours
from toolbank.retrievers.lexical import LexicalIndex
from toolbank.system.errors import InputError


def tool(name, summary="", kind="function", **parameters):
    schema = {"type": "object", "properties": parameters}
    return Tool(name=name, kind=kind, summary=summary, parameters=schema)


def names(tools):
    return [tool.name for tool in tools]


def test_the_nearest_share_the_rarest_words_of_name_summary_and_parameters():
    tools = [
        tool("a.tide_table", "Heights of the sea by hour.", harbour={}),
        tool("a.tideTable", "Something else."),
        tool("a.ebb", "Depths of the water.", harbour={}),
        tool("a.paint", "Colours of a wall."),
    ]
    found = names(Neighbours([(one,) for one in tools]).find(tools[0], 3))
    assert found[:2] == ["a.tideTable", "a.ebb"]
    assert "a.tide_table" not in found


def test_the_order_is_that_of_every_score_and_equals_come_by_name():
    tools = [tool(f"lib.part{n}", f"Weigh {n % 3} of the {n % 5}.") for n in range(40)]
    neighbours = Neighbours([(one,) for one in reversed(tools)])
    texts = [f"lib part{n}\nWeigh {n % 3} of the {n % 5} " for n in range(40)]
    index = LexicalIndex.of(texts)
    for own in (0, 7, 39):
        [scores] = index.scores([texts[own]])
        ranked = sorted(
            (n for n in range(40) if n != own),
            key=lambda n: (-scores[n], tools[n].name),
        )
        expected = [tools[n].name for n in ranked[:6] if scores[n] > 0]
        assert names(neighbours.find(tools[own], 6)) == expected


def test_siblings_are_no_neighbours_and_one_stands_for_all():
    tools = [
        tool("t.Bank.is_open", "Whether a day is open.", "method"),
        tool("t.Shop.is_open", "Whether a day is open.", "method"),
        tool("t.Bank.is_shut", "Whether a day is shut.", "method"),
        tool("t.Shop.is_shut", "Whether a day is shut.", "method"),
    ]
    neighbours = Neighbours(group_siblings(tools))
    assert names(neighbours.find(tools[1], 5)) == ["t.Bank.is_shut"]


def test_a_prompt_shows_the_tool_and_what_it_could_be_taken_for():
    prompt = AskPrompts(SHOP, AsksConfig(), "shop").ask(SHOP[:1]).messages[0].content
    head, _, neighbours = prompt.partition("# Its nearest neighbours")
    assert SHOP[0].name in head
    assert SHOP[0].summary in head
    shown = [one.name for one in SHOP if f"\n- {one.name}:" in neighbours]
    assert len(shown) == 5
    assert SHOP[0].name not in shown
    assert "shop.find_letters" in shown


def test_a_prompt_says_on_how_many_other_classes_a_tool_is_the_same():
    tools = [
        tool(f"t.{kind}.is_open", "Whether a day is open.", "method")
        for kind in ("Bank", "Shop", "Church")
    ]
    prompt = AskPrompts(tools, AsksConfig(), "t").ask(tools).messages[0].content
    assert "the same on 2 other classes, such as t.Shop.is_open" in prompt


def own_template(folder, monkeypatch, text):
    (folder / "prompts").mkdir()
    (folder / "prompts/asks.j2").write_text(text)
    monkeypatch.chdir(folder)
    return AskPrompts(SHOP, AsksConfig(), "shop")


def test_the_users_own_prompt_is_used(tmp_path, monkeypatch):
    text = "{{ tool.name }} | {{ asks | map(attribute='key') | join(' ') }}"
    prompts = own_template(tmp_path, monkeypatch, text)
    [message] = prompts.ask(SHOP[:1]).messages
    assert message.content == f"{SHOP[0].name} | plain voiced terse larger"


@pytest.mark.parametrize(
    "text", ["{{ tool.__class__ }}", "{{ nobody }}", "{% for tool in tools"]
)
def test_a_prompt_that_reaches_out_or_is_broken_is_refused(tmp_path, monkeypatch, text):
    prompts = own_template(tmp_path, monkeypatch, text)
    with pytest.raises(InputError, match=r"asks\.j2, line 1"):
        prompts.ask(SHOP[:1])


def test_what_the_reference_says_is_never_read_as_a_template():
    evil = tool("e.vil", "{{ tool.__class__.__mro__ }} {% raw %}")
    prompt = AskPrompts([evil], AsksConfig(), "e").ask([evil]).messages[0].content
    assert evil.summary in prompt
