"""Labels verified by a real server on loopback, good and bad, and by no model at all."""

import re

import polars as pl
import pytest

from tests.servers.chat import Answer, ChatServer
from tests.world import SHOP
from toolbank.bank.bank import Bank
from toolbank.bank.records import Query, Tool
from toolbank.llm.journal import Journal
from toolbank.requests.verify import VerifyConfig
from toolbank.requests.verify.verify import verify_bank
from toolbank.system.errors import InputError

OLD = Tool(
    name="shop.tot",
    summary="Total the prices of a customer.",
    deprecated="1.4 Use total_prices instead.",
)
NICK = Tool(name="shop.sum_all", summary="An alias of total_orders.")
TOOLS = (*SHOP, OLD, NICK)


def request(number, *tools, explanation=""):
    said = f"Please see to the {' and the '.join(t.partition('_')[2] for t in tools)}"
    text = f"{said} of customer {number}."
    more = {"split": "train", "explanation": explanation}
    return Query(id=f"q{number}", query=text, tools=tools, **more)


BANK = Bank(
    TOOLS,
    tuple(
        request(n, f"shop.find_{one}", f"shop.total_{other}")
        for n, (one, other) in enumerate(
            [("orders", "letters"), ("returns", "prices"), ("prices", "orders")] * 4
        )
    ),
)


def verify(server, folder, bank=BANK, tools_id="tools", earlier=None, **settings):
    url = getattr(server, "url", "http://127.0.0.1:9")
    engine = {"engine": "openai", "model": "m", "base_url": url}
    few = {"candidates": 6, "second_call": 0}
    config = VerifyConfig(**{**engine, **few, **settings})
    folder.mkdir(exist_ok=True)
    with Journal(folder / "journal.sqlite") as journal:
        place = {"folder": folder / "verify", "tools_id": tools_id, "journal": journal}
        place["earlier"] = earlier
        return verify_bank(bank, config, domain="shop", seed=0, **place)


def verify_one(folder, bank, **reply):
    """Verify a bank by a model that always replies the same."""
    with ChatServer(lambda _: Answer.json({"aside": "", **reply})) as server:
        return verify(server, folder, bank)


def rows(found, *fields):
    """These fields of all labels."""
    return [tuple(getattr(one, name) for name in fields) for one in found.value.labels]


def shown(call):
    """The request and the tools of a prompt."""
    text = re.search(r"<request>\n(.*)\n</request>", call.prompt)[1]
    listed = call.prompt.partition("# The tools\n")[2].partition("# How")[0]
    return text, re.findall(r"^- ([\w.]+)", listed, re.MULTILINE)


def by_rule(call):
    """Needs the first offered tool by name; the second may stand for it."""
    tools = sorted(shown(call)[1])
    return Answer.json(
        {
            "needed": [{"tool": tools[0], "why": "it comes first"}],
            "alternatives": [{"tool": tools[1], "for": tools[0], "why": "as good"}],
            "aside": "",
        }
    )


def test_each_request_is_graded_once_among_its_own_tools_and_others(tmp_path):
    with ChatServer(by_rule) as server:
        found = verify(server, tmp_path)
        again = verify(server, tmp_path)
    assert len(server.calls) == len(BANK.queries)
    assert again.value.labels == found.value.labels
    pooled = pl.read_parquet(tmp_path / "verify" / "candidates.parquet")
    # A file of an earlier version has no hash yet.
    (tmp_path / "verify" / "candidates.sha256").unlink()
    assert verify(None, tmp_path, engine="rules").value
    assert (tmp_path / "verify" / "candidates.sha256").is_file()
    for call in server.calls:
        assert "label" not in call.prompt
        assert "bm25" not in call.prompt
        text, tools = shown(call)
        query = next(one for one in BANK.queries if one.query == text)
        assert set(query.tools) < set(tools)
        mine = pooled.filter(query=query.id)["tool"].to_list()
        assert sorted(tools) == sorted(mine)
        assert tools != mine
    first = sorted(pooled.filter(query="q0")["tool"])
    assert rows(found, "grade", "tool", "stands_for")[:2] == [
        ("needed", first[0], ""),
        ("alternative", first[1], first[0]),
    ]


def test_candidates_stay_as_they_were_pooled_though_requests_are_added(tmp_path):
    with ChatServer(by_rule) as server:
        verify(server, tmp_path)
        path = tmp_path / "verify" / "candidates.parquet"
        before = pl.read_parquet(path)
        more = Bank(TOOLS, (*BANK.queries, request(99, "shop.merge_prices")))
        verify(server, tmp_path, more)
        assert len(server.calls) == len(BANK.queries) + 1
        verify(server, tmp_path)
        assert len(server.calls) == len(BANK.queries) + 1
        now = pl.read_parquet(path)
        assert now.filter(pl.col("query") != "q99").equals(before)
        verify(server, tmp_path, tools_id="other tools")
        anew = pl.read_parquet(path).filter(~pl.col("key").is_in(now["key"].to_list()))
        assert set(anew["query"]) == {query.id for query in BANK.queries}
        # Those that were graded stay, as what the grades were chosen from.
        assert before["key"].is_in(pl.read_parquet(path)["key"].to_list()).all()
        verify(server, tmp_path)
        # Those of the present settings come first: people review these.
        assert pl.read_parquet(path)[: before.height].equals(before)


def test_replies_that_say_what_cannot_be_are_counted_and_first_labels_stay(tmp_path):
    def script(call):
        _, tools = shown(call)
        needed = {"tool": tools[0], "why": ""}
        for_none = {"tool": tools[1], "for": tools[2], "why": ""}
        bad = [
            {"needed": [{"tool": "shop.burn", "why": ""}]},
            {"needed": [needed, needed]},
            {"needed": [needed], "alternatives": [for_none]},
            {"needed": "all of them"},
            {"needed": [], "alternatives": [], "aside": "It has two readings."},
            {"needed": [], "alternatives": [], "aside": ""},
        ]
        return Answer.json((bad + 6 * [{"needed": [needed]}])[call.number])

    with ChatServer(script) as server:
        found = verify(server, tmp_path, concurrency=1)
    assert [row["reason"] for row in found.value.content["not_graded"]] == [
        *("not-offered", "graded-twice", "wrong-schema")
    ]
    # One bad alternative costs no other label of its request.
    assert found.value.content["dropped_alternatives"] == {"stands-for-nothing": 1}
    labelled = {label.query for label in found.value.labels}
    assert labelled == {query.id for query in (BANK.queries[2], *BANK.queries[4:])}
    labels = rows(found, "grade", "query", "reason")
    aside = [row[1:] for row in labels if row[0] == "aside"]
    nothing = "none of the candidates is needed"
    assert aside == [("q4", "It has two readings."), ("q5", nothing)]
    agreement = found.value.content["agreement"]
    assert (agreement["requests"], agreement["aside"]) == (9, 2)


def test_a_reply_may_name_only_the_candidates(tmp_path):
    named = []

    def script(call):
        _, tools = shown(call)
        schema = call.body["response_format"]["json_schema"]["schema"]["properties"]
        for kind in ("needed", "alternatives"):
            properties = schema[kind]["items"]["properties"]
            named.append(
                (
                    tools,
                    [
                        properties[k].get("enum")
                        for k in ("tool", "for")
                        if k in properties
                    ],
                )
            )
        return Answer.json({"needed": [{"tool": tools[0], "why": ""}]})

    with ChatServer(script) as server:
        verify(server, tmp_path)
    assert all(names == [tools] * len(names) for tools, names in named)


def test_an_alternative_may_stand_for_a_tool_with_a_long_name(tmp_path):
    long = f"shop.{'a' * 120}"
    bank = Bank((*SHOP, Tool(name=long)), (request(0, long, "shop.find_orders"),))
    other = {"tool": "shop.find_orders", "for": long, "why": "so"}
    needed = [{"tool": long, "why": "so"}]
    found = verify_one(tmp_path, bank, needed=needed, alternatives=[other])
    assert rows(found, "stands_for") == [("",), (long,)]


def test_agreement_counts_first_labels_that_stay_fall_or_were_missing(tmp_path):
    one, two = BANK.queries[0].tools
    bank = Bank(TOOLS, BANK.queries[:1])
    pooled = verify(None, tmp_path / "pool", bank, engine="rules") and pl.read_parquet(
        tmp_path / "pool" / "verify" / "candidates.parquet"
    )
    new = next(tool for tool in pooled["tool"] if tool not in (one, two))
    needed = [{"tool": new, "why": ""}, {"tool": one, "why": ""}]
    other = {"tool": two, "for": one, "why": ""}
    found = verify_one(tmp_path, bank, needed=needed, alternatives=[other])
    agreement = {"requests": 1, "aside": 0, "same": 0, "labels": 2, "confirmed": 1}
    agreement |= {"alternative": 1, "refuted": 0, "added": 1}
    agreement |= {"precision": 0.5, "recall": 0.5}
    assert found.value.content["agreement"] == agreement
    # First labels come before others, whatever the model's order.
    assert found.value.labels[0].tool == one


def checked(folder, *queries, **settings):
    return verify(None, folder, Bank(TOOLS, queries), engine="rules", **settings)


def test_without_a_model_old_names_become_alternatives_of_new_ones(tmp_path):
    found = checked(
        tmp_path,
        request(0, "shop.tot", "shop.find_orders"),
        request(1, "shop.sum_all"),
        request(2, "shop.merge_orders"),
    )
    assert rows(found, "query", "tool", "grade", "stands_for") == [
        ("q0", "shop.total_prices", "needed", ""),
        ("q0", "shop.find_orders", "needed", ""),
        ("q0", "shop.tot", "alternative", "shop.total_prices"),
        ("q1", "shop.total_orders", "needed", ""),
        ("q1", "shop.sum_all", "alternative", "shop.total_orders"),
    ]
    assert found.value.content["findings"]["deprecated"]["tools"] == {"shop.tot": 1}
    assert found.value.content["findings"]["alias"]["requests"] == 1


@pytest.mark.parametrize(
    ("said", "instead"),
    [
        ("2.0 Use total_prices instead.", "shop.total_prices"),
        ("In favor of :func:`shop.find_orders`.", "shop.find_orders"),
        ("`tot` is deprecated. Use `sh.list_orders` directly.", "shop.list_orders"),
        ("Find orders where you may; it goes away.", ""),
        ("Calls to list_orders fail; use total_prices instead.", "shop.total_prices"),
        ("Goes to total_letters.", "shop.total_letters"),
    ],
)
def test_a_note_of_deprecation_is_read_for_what_to_use(tmp_path, said, instead):
    old = OLD.model_copy(update={"deprecated": said})
    bank = Bank((*SHOP, old), (request(0, "shop.tot"),))
    found = verify(None, tmp_path, bank, engine="rules")
    needed = [(instead, "needed"), ("shop.tot", "alternative")]
    assert rows(found, "tool", "grade") == (needed if instead else [])


def test_an_explanation_that_never_speaks_of_a_label_is_found(tmp_path):
    queries = [
        request(0, "shop.find_orders", explanation="We find what was ordered."),
        request(1, "shop.find_orders", explanation="Because it is raining."),
    ]
    found = checked(tmp_path, *queries)
    tools = {"shop.find_orders": 1}
    unspoken = {"labels": 1, "requests": 1, "tools": tools}
    assert found.value.content["findings"]["unspoken"] == unspoken
    assert not found.value.labels
    aside = checked(tmp_path, *queries, set_aside=["unspoken"])
    [label] = rows(aside, "query", "grade", "reason")
    assert label == ("q1", "aside", "unspoken: shop.find_orders")


def test_a_request_that_nobody_would_find_by_its_label_fails_the_round_trip(tmp_path):
    many = [Tool(name=f"sea.sail{n}", summary=f"Sail to port {n}.") for n in range(80)]
    lost = Query(id="lost", query="Sail to a port by sea.", tools=("shop.tot",))
    good = Query(id="good", query="Total the prices, please.", tools=("shop.tot",))
    bank = Bank((*many, OLD), (lost, good))
    found = verify(None, tmp_path, bank, engine="rules")
    assert found.value.content["findings"]["round-trip"]["requests"] == 1
    findings = pl.read_parquet(tmp_path / "verify" / "findings.parquet")
    assert findings.filter(check="round-trip")["query"].to_list() == ["lost"]


@pytest.mark.parametrize("kind", ["edited", "cut", "in another order"])
def test_candidates_that_are_not_as_they_were_written_are_refused(tmp_path, kind):
    with ChatServer(by_rule) as server:
        verify(server, tmp_path)
        path = tmp_path / "verify" / "candidates.parquet"
        frame, whole = pl.read_parquet(path), path.read_bytes()
        if kind == "cut":
            path.write_bytes(whole[:-100])
        else:
            (frame[1:] if kind == "edited" else frame[::-1]).write_parquet(path)
        with pytest.raises(InputError, match=r"candidates\.parquet: .*delete it"):
            verify(server, tmp_path)
        assert len(server.calls) == len(BANK.queries)
        path.unlink()
        verify(server, tmp_path)
        assert path.read_bytes() == whole
        assert len(server.calls) == len(BANK.queries)
