"""Asks by a real server on loopback, good and bad."""

import json
from random import Random
from time import sleep

import pytest

from tests.servers.chat import Answer, ChatServer
from tests.world import SHOP, adds_up, asks_for, good
from toolbank.bank.records import Tool, group_siblings
from toolbank.llm.journal import Journal
from toolbank.requests.asks import KINDS, AsksConfig
from toolbank.requests.asks.write import AskPrompts, Neighbours, ask_for_tools
from toolbank.retrievers.lexical import LexicalIndex
from toolbank.system.errors import ToolbankError

MANY = [Tool(name=f"yard.lift{n}", summary=f"Lift the load {n}.") for n in range(70)]
SISTERS = [
    Tool(name=f"cal.{kind}.is_open", kind="method", summary="Whether a day is open.")
    for kind in ("Bank", "Church", "Shop")
]


def write(folder, config, tools=SHOP, seed=0, withheld=()):
    with Journal(folder / "journal.sqlite") as journal:
        return ask_for_tools(
            tools, config, domain="shop", seed=seed, journal=journal, withheld=withheld
        )


def ask(server, folder, tools=SHOP, withheld=(), **settings):
    url = getattr(server, "url", "")
    config = AsksConfig(**{"model": "m", "base_url": url, **settings})
    return write(folder, config, tools, withheld=withheld)


def told(written):
    return [(ask.tool, ask.kind, ask.ask) for ask in written.value.asks]


def expect(tools, writer=""):
    """The asks of a good model, which are for `writer`, or for each tool."""
    return [
        (tool.name, kind, text)
        for tool in tools
        for kind, text in asks_for(writer or tool.name).items()
    ]


def all_counted(written):
    counts = written.value.content["counts"]
    return adds_up({**counts, "attempts": 4 * counts["groups"]})


def test_a_good_model_is_asked_once_a_tool_and_its_asks_are_the_banks(tmp_path):
    with ChatServer(good) as server:
        written = ask(server, tmp_path)
    assert len(server.calls) == len(SHOP)
    assert told(written) == expect(SHOP)
    assert not (written.lacks or written.problems[1:])
    assert all_counted(written)


def test_where_an_ask_came_from_is_found_in_the_journal(tmp_path):
    with ChatServer(good) as server:
        one = ask(server, tmp_path).value.asks[7]
    with Journal(tmp_path / "journal.sqlite") as journal:
        [entry] = journal.entries(one.provenance.attempt)
    assert entry.key in one.provenance.requests
    assert one.tool in entry.messages[0]["content"]
    assert one.ask in entry.reply.text


def test_of_a_reply_that_is_bad_in_parts_the_good_asks_stay(tmp_path):
    first, second, third, fourth = (tool.name for tool in SHOP[:4])
    bad = {
        first: {"plain": "Too short by far.", "terse": "two words"},
        second: {"voiced": 5, "larger": f"Would you call {first} for my old aunt?"},
        third: {"plain": "", "terse": "Что это за снег"},
    }

    def script(call):
        reply = asks_for(call.asked_for) | bad.get(call.asked_for, {})
        if call.asked_for == fourth:
            del reply["larger"]
        return Answer.json(reply)

    with ChatServer(script) as server:
        written = ask(server, tmp_path)
    counts = written.value.content["counts"]
    once = ("identifier", "missing", "not-english", "wrong-schema")
    assert counts["rejected"] == {**dict.fromkeys(once, 1), "too-short": 2}
    assert counts["declined"] == 1
    assert counts["accepted"] == 4 * len(SHOP) - 7
    assert all_counted(written)
    lost = {(row["tool"], row["kind"]) for row in written.value.content["not_accepted"]}
    assert (second, "voiced") in lost
    assert lost.isdisjoint((tool, kind) for tool, kind, _ in told(written))


def test_a_model_that_answers_rubbish_is_asked_for_a_few_tools_alone(tmp_path):
    with (
        ChatServer(lambda call: Answer.text("la la la")) as server,
        pytest.raises(ToolbankError, match=r"None of 50 replies(.|\n)*not-json 200"),
    ):
        ask(server, tmp_path, MANY, concurrency=8)
    assert len(server.calls) == 50


def test_replies_in_any_order_give_the_same_asks(tmp_path):
    def slow(call):
        sleep(Random(call.prompt).random() / 50)
        return good(call)

    with ChatServer(slow) as server:
        one = ask(server, tmp_path / "one", MANY, concurrency=1)
        many = ask(server, tmp_path / "many", MANY, concurrency=32)
    assert one.value.asks == many.value.asks
    assert one.value.content == many.value.content


def test_an_ask_that_was_written_before_is_rejected_whoever_wrote_it_first(tmp_path):
    def same(call):
        reply = asks_for(call.asked_for)
        return Answer.json({**reply, "plain": "Which of my letters came in last May?"})

    with ChatServer(same) as server:
        written = ask(server, tmp_path, concurrency=16)
    rejected = written.value.content["counts"]["rejected"]
    assert rejected == {"near-duplicate": len(SHOP) - 1}
    plain = [tool for tool, kind, _ in told(written) if kind == "plain"]
    assert plain == [SHOP[0].name]


def test_siblings_are_asked_for_once_and_have_the_same_asks(tmp_path):
    other = Tool(name="cal.is_open", summary="Open?")
    first = SISTERS[0].name
    with ChatServer(good) as server:
        written = ask(server, tmp_path, [*SISTERS, other])
    assert sorted(call.asked_for for call in server.calls) == [first, other.name]
    assert told(written) == expect(SISTERS, first) + expect([other])
    counts = written.value.content["counts"]
    assert (counts["accepted"], counts["tools"]) == (8, 4)
    assert "siblings share theirs" in written.message


def test_a_withheld_tool_is_not_asked_for(tmp_path):
    names = {SHOP[0].name, SISTERS[0].name}
    with ChatServer(good) as server:
        written = ask(server, tmp_path, [*SHOP, *SISTERS], withheld=names)
    assert names.isdisjoint(tool for tool, *_ in told(written))
    assert names.isdisjoint(call.asked_for for call in server.calls)
    assert SISTERS[1].name in {tool for tool, *_ in told(written)}
    assert not any("without an ask" in line for line in written.problems)


def test_a_tool_that_is_added_leaves_the_replies_for_others_as_they_were(tmp_path):
    other = Tool(name="moon.paint", summary="Paint it yellow.")
    with ChatServer(good) as server:
        ask(server, tmp_path, SHOP[1:])
        before = len(server.calls)
        ask(server, tmp_path, [other, *SHOP[1:]])
    assert [call.asked_for for call in server.calls[before:]] == [other.name]


def test_calls_that_fail_are_counted_and_made_again_by_the_next_run(tmp_path):
    broken = {SHOP[2].name, SHOP[5].name}

    def script(call):
        return Answer.error(500) if call.asked_for in broken else good(call)

    with ChatServer(script) as server:
        written = ask(server, tmp_path, retries=0)
        assert written.value.content["counts"]["failed"].keys() == {"http-500"}
        assert written.lacks == "asks for 2 of 16 tools"
        assert all_counted(written)
        server.script = good
        before = len(server.calls)
        again = ask(server, tmp_path)
    assert {call.asked_for for call in server.calls[before:]} == broken
    assert not again.lacks
    assert len(again.value.asks) == 4 * len(SHOP)


def test_more_asks_than_kinds_take_the_kinds_in_turn(tmp_path):
    with ChatServer(good) as server:
        written = ask(server, tmp_path, kinds=["terse", "plain", "plain"], per_tool=4)
    assert server.calls[0].keys == ["terse", "plain", "plain_2", "terse_2"]
    kinds = [kind for tool, kind, _ in told(written) if tool == SHOP[0].name]
    assert kinds == ["terse", "plain", "plain", "terse"]


def test_instructions_and_every_kind_stand_in_the_prompt(tmp_path):
    with ChatServer(good) as server:
        ask(server, tmp_path, instructions="Our users are sailors.")
    prompt = server.calls[0].prompt
    assert "Our users are sailors." in prompt
    assert json.dumps(list(KINDS)) == json.dumps(server.calls[0].keys)
    assert all(f"- {kind}: " in prompt for kind in KINDS)


def tool(name, summary="", kind="function", **parameters):
    schema = {"type": "object", "properties": parameters}
    return Tool(name=name, kind=kind, summary=summary, parameters=schema)


def prompt_for(tools, group=1):
    request = AskPrompts(tools, AsksConfig(), "shop").ask(tools[:group])
    return request.messages[0].content


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
        others = [n for n in range(40) if n != own]
        ranked = sorted(others, key=lambda n: (-scores[n], tools[n].name))
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
    prompt = prompt_for(SHOP)
    head, _, neighbours = prompt.partition("# Its nearest neighbours")
    assert SHOP[0].name in head
    assert SHOP[0].summary in head
    shown = [one.name for one in SHOP if f"\n- {one.name}:" in neighbours]
    assert len(shown) == 5
    assert SHOP[0].name not in shown
    assert "shop.find_letters" in shown


def test_a_prompt_says_on_how_many_other_classes_a_tool_is_the_same():
    same = "the same on 2 other classes, such as cal.Church.is_open"
    assert same in prompt_for(SISTERS, 3)


def test_the_users_own_prompt_is_used(tmp_path, monkeypatch):
    text = "{{ tool.name }} | {{ asks | map(attribute='key') | join(' ') }}"
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts/asks.j2").write_text(text)
    monkeypatch.chdir(tmp_path)
    assert prompt_for(SHOP) == f"{SHOP[0].name} | plain voiced terse larger"


def test_what_the_reference_says_is_never_read_as_a_template():
    evil = tool("e.vil", "{{ tool.__class__.__mro__ }} {% raw %}")
    assert evil.summary in prompt_for([evil])
