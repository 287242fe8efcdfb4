import re
import subprocess
import sys
from secrets import token_hex

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from tests.small_disk import small_disk
from toolbank.bank.bank import Bank, Label, read_labels
from toolbank.bank.files import (
    read_attempt,
    read_attempts,
    read_queries,
    read_tools,
    write_attempts,
    write_queries,
    write_tools,
)
from toolbank.bank.frames import load_bank
from toolbank.bank.records import (
    Argument,
    Ask,
    AttemptRecord,
    HttpCall,
    McpCall,
    Provenance,
    PythonCall,
    Query,
    RaisedException,
    ReturnValue,
    SeeAlso,
    Tool,
    VersionNote,
    group_siblings,
)
from toolbank.system.errors import InputError, ToolbankError

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def few(values):
    return st.lists(values, max_size=2).map(tuple)


schemas = st.dictionaries(texts, st.lists(texts))
arguments = st.builds(
    Argument,
    property=texts,
    place=st.sampled_from(["path", "body"]),
    explode=st.none() | st.booleans(),
)
calls = st.one_of(
    st.none(),
    st.builds(
        HttpCall,
        method=texts,
        path=texts,
        arguments=few(arguments),
        security=few(st.lists(texts).map(tuple)),
    ),
    st.builds(McpCall, source=texts, tool=texts),
    st.builds(PythonCall, path=texts),
)
changes = st.builds(
    VersionNote,
    change=st.sampled_from(["added", "removed"]),
    version=texts,
    parameter=texts,
)
tools = st.builds(
    Tool,
    name=texts,
    kind=st.sampled_from(["function", "class", "object"]),
    summary=texts,
    parameters=st.fixed_dictionaries(
        {"type": st.just("object"), "properties": st.dictionaries(texts, st.just({}))}
    ),
    returns=few(st.builds(ReturnValue, name=texts, structure=st.none() | schemas)),
    raises=few(st.builds(RaisedException, type=texts)),
    versions=few(changes),
    see_also=few(st.builds(SeeAlso, name=texts)),
    aliases=few(texts),
    title=texts,
    tags=few(texts),
    output_schema=st.none() | schemas,
    annotations=st.dictionaries(texts, st.booleans()),
    call=calls,
)
provenances = st.none() | st.builds(
    Provenance,
    attempt=st.integers(0, 10**9),
    engine=texts,
    model=texts,
    prompt_hash=texts,
    seed=st.integers(-(2**40), 2**40),
)
queries = st.builds(
    Query,
    id=texts,
    query=texts,
    tools=st.lists(texts, max_size=3).map(tuple),
    split=st.sampled_from(["train", "test", None]),
    provenance=provenances,
)
asks = st.builds(Ask, tool=texts, kind=texts, ask=texts, provenance=provenances)


@settings(max_examples=40)
@given(
    st.lists(tools, max_size=4),
    st.lists(queries, max_size=4),
    st.lists(asks, max_size=4),
)
def test_a_saved_bank_reads_back_to_the_same_and_saves_to_the_same_bytes(
    tmp_path_factory, some_tools, some_queries, some_asks
):
    bank = Bank(tuple(some_tools), tuple(some_queries), {"layout": 1}, tuple(some_asks))
    first, second = tmp_path_factory.mktemp("a"), tmp_path_factory.mktemp("b")
    bank.save(first)
    loaded = Bank.load(first)
    assert loaded == bank
    loaded.save(second)
    for path in first.iterdir():
        assert path.read_bytes() == (second / path.name).read_bytes()


LABELS = (
    Label(query="q1", tool="a", grade="needed", reason="it puts in order"),
    Label(query="q1", tool="b", grade="alternative", stands_for="a"),
    Label(query="q2", grade="aside", reason="two readings"),
)


def test_a_bank_saved_over_one_with_asks_and_labels_has_none(tmp_path):
    queries = (Query(id="q1", query="put them in order", tools=("a",)),)
    asks = (Ask(tool="a", kind="plain", ask="do what a does"),)
    bank = Bank((Tool(name="a"), Tool(name="b")), queries, {}, asks, LABELS)
    bank.save(tmp_path)
    assert Bank.load(tmp_path) == bank
    frame = pl.read_parquet(tmp_path / "labels.parquet")
    columns = ["query", "tool", "grade", "for", "reason", "kind", "source"]
    assert frame.columns == columns
    assert frame["for"].to_list() == ["", "a", ""]
    before = (tmp_path / "queries.parquet").read_bytes()
    bare = Bank(bank.tools, queries)
    bare.save(tmp_path)
    assert Bank.load(tmp_path) == bare
    assert (tmp_path / "queries.parquet").read_bytes() == before


def test_members_of_several_classes_with_the_same_text_are_siblings():
    def tool(name, kind="method", summary="Whether a date is one."):
        return Tool(name=name, kind=kind, summary=summary)

    spaced = tool("t.Hour.is_it", summary="Whether a date  is one.")
    siblings = (tool("t.Day.is_it"), spaced)
    others = [
        tool("t.Week.is_it", summary="Whether a week is one."),
        *(tool("t.Year.is_it", "property"), tool("t.Year.was_it")),
        *(tool("t.a.mean", "function"), tool("t.b.mean", "function")),
    ]
    groups = [siblings, *((one,) for one in others)]
    assert group_siblings([*siblings, *others]) == groups


def test_train_queries_are_those_of_the_split_and_the_asks_each_for_its_tool():
    train, test = (
        Query(id=split, query="q", tools=("a", "b"), split=split)
        for split in ("train", "test")
    )
    asks = tuple(Ask(tool=name, kind="plain", ask=f"do {name}") for name in "ab")
    bank = Bank((Tool(name="a"), Tool(name="b")), (train, test), {"x": 1}, asks)
    learnt = [(query.query, query.tools) for query in bank.train_queries]
    assert learnt == [("q", ("a", "b")), ("do a", ("a",)), ("do b", ("b",))]
    left = Bank(bank.tools, (test,), bank.info, asks[:1])
    assert bank.without_train_queries([0, 2]) == left


def test_an_ask_that_siblings_share_is_one_train_query_with_all_of_them():
    told = (("c", "both"), ("b", "one"), ("a", "both"), ("gone", "both"), ("b", "one"))
    asks = tuple(Ask(tool=name, kind="plain", ask=text) for name, text in told)
    train = Query(id="q", query="both", tools=("a", "b"), split="train")
    bank = Bank(tuple(Tool(name=name) for name in "abc"), (train,), asks=asks)
    asked = [(query.query, query.tools) for query in bank.asked]
    assert asked == [("both", ("a", "c", "gone")), ("one", ("b",))]
    assert len({query.id for query in bank.asked}) == 2
    # The first ask goes with every row of its text, and no query with it.
    left = bank.without_train_queries([1])
    assert left.queries == (train,)
    assert [ask.ask for ask in left.asks] == ["one", "one"]


def test_saving_and_loading_do_not_wait_for_pandas(tmp_path):
    script = (
        "import sys, pathlib, toolbank as b\n"
        "b.Bank((b.Tool(name='f', kind='function'),)).save(pathlib.Path('bank'))\n"
        "assert b.Bank.load(pathlib.Path('bank')).tools[0].name == 'f'\n"
        "assert 'pandas' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True)


def test_rows_come_back_in_their_order_past_one_row_group(tmp_path, monkeypatch):
    monkeypatch.setattr("toolbank.bank.files._ROW_GROUP", 3)
    many = tuple(Query(id=str(n), query="q", tools=("a", "b")) for n in range(10))
    write_queries(tmp_path / "queries.parquet", iter(many))
    assert read_queries(tmp_path / "queries.parquet") == many
    rows = [
        AttemptRecord(attempt=0, outcome="accepted", query_id="0", requests=("k", "l")),
        AttemptRecord(attempt=1, outcome="declined", detail="nothing fits"),
        AttemptRecord(attempt=2, outcome="rejected", reason="long", requests=("m",)),
        AttemptRecord(attempt=3, outcome="failed", reason="http-500", requests=("n",)),
    ]
    path = tmp_path / "attempts.parquet"
    write_attempts(path, rows)
    assert list(read_attempts(path)) == rows
    assert read_attempt(path, 3) == rows[3]
    assert read_attempt(path, 4) is None
    assert parquet.ParquetFile(path).num_row_groups == 2


def test_a_full_disk_is_told_and_leaves_nothing(tmp_path):
    many = (Query(id=str(n), query=token_hex(200), tools=()) for n in range(9000))
    with (
        small_disk(tmp_path / "small", 300),
        pytest.raises(ToolbankError, match=r"No space left .*Make room"),
    ):
        write_queries(tmp_path / "small" / "queries.parquet", many)
        assert not list((tmp_path / "small").iterdir())


def test_an_error_of_what_is_written_is_not_polars_own(tmp_path):
    def fail():
        yield Query(id="1", query="q", tools=())
        raise InputError("nothing more")

    with pytest.raises(InputError, match="nothing more"):
        write_queries(tmp_path / "queries.parquet", fail())
    assert not list(tmp_path.iterdir())


def test_frames_hold_the_rows_of_a_bank(tmp_path):
    query = Query(id="1", query="q", tools=("a", "b"), split="train")
    bank = Bank((Tool(name="a", kind="function"),), (query,), {"name": "small"})
    bank.save(tmp_path / "bank")
    for folder in (tmp_path, tmp_path / "bank"):
        frames = load_bank(folder)
        assert frames.queries["tools"].to_list() == [["a", "b"]]
        assert frames.tools.columns == list(Tool.model_fields)
        assert frames.attempts.is_empty()
        assert frames.attempts.columns == list(AttemptRecord.model_fields)
        assert frames.asks.is_empty()
        assert frames.info == {"name": "small"}
    with pytest.raises(InputError, match="no bank"):
        load_bank(tmp_path / "nothing")


def test_a_name_finds_its_tool_before_anothers_alias_does():
    bank = Bank((Tool(name="a", aliases=("b", "c")), Tool(name="b")))
    assert bank.index == {"a": 0, "b": 1, "c": 0}


def drop(*columns):
    return lambda table: table.drop_columns(columns)


def drop_structure(table):
    keys = ("name", "type", "description")
    rows = table["returns"].to_pylist()
    returns = pa.array([[{key: one[key] for key in keys} for one in r] for r in rows])
    return table.set_column(table.column_names.index("returns"), "returns", returns)


@pytest.mark.parametrize(
    "as_before",
    [
        drop("title", "tags", "annotations", "output_schema", "call"),
        drop("raises", "versions"),
        drop("twins"),
        drop_structure,
        lambda table: table.append_column("prompt_name", pa.array(["what_it_does"])),
    ],
)
def test_a_file_of_an_earlier_version_is_read(tmp_path, as_before):
    path = tmp_path / "tools.parquet"
    tool = Tool(name="a", returns=(ReturnValue(name="out", type="int"),))
    write_tools(path, [tool])
    parquet.write_table(as_before(parquet.read_table(path)), path)
    assert read_tools(path) == (tool,)


def test_a_damaged_or_foreign_file_is_named(tmp_path):
    path, labels = tmp_path / "tools.parquet", tmp_path / "labels.parquet"
    with pytest.raises(InputError, match="no such file"):
        read_tools(path)
    Bank((Tool(name="a", kind="function"),)).save(tmp_path)
    with pytest.raises(InputError, match="not a file of this version"):
        read_queries(path)
    row = {"query": "q1", "tool": "a", "grade": "sure", "for": "", "reason": ""}
    pl.DataFrame([row]).write_parquet(labels)
    with pytest.raises(InputError, match=r"(?s)labels\.parquet.*grade"):
        read_labels(labels)
    labels.unlink()
    whole = path.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"", b"PAR1" * 10):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=r"tools\.parquet: damaged"):
            read_tools(path)
    path.write_bytes(whole)
    (tmp_path / "bank.json").write_text("[1]")
    with pytest.raises(InputError, match=r"bank\.json: not what a run writes"):
        Bank.load(tmp_path)


@given(st.lists(st.text(min_size=1), min_size=2, max_size=5, unique=True))
def test_any_name_is_a_function_name_that_apis_take(names: list[str]) -> None:
    def function_name(name):
        return Tool(name=name).as_function()["function"]["name"]

    made = [function_name(one) for one in names]
    made += [function_name(f"{'package.' * 10}{one}") for one in names]
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", one) for one in made)
    told = {name.replace(".", "_") for name in names}
    assert len(set(made)) >= 2 * len(told)
    assert function_name("np.fft.fft") == "np_fft_fft"
