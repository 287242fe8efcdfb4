import json
import re

import pytest
from huggingface_hub import constants

from tests.search.calls.apis import serving
from tests.servers.batch import answer_file
from tests.servers.chat import Answer, closed_url
from tests.world import good, write_recipe
from toolbank.bank.files import write_tools
from toolbank.bank.records import Tool
from toolbank.commands.preview import preview_attempts
from toolbank.run.assets import write_origin
from toolbank.run.folder import RunFolder
from toolbank.run.plan import describe_plan
from toolbank.run.recipe import dump_recipe, load_recipe
from toolbank.run.run import run_recipe
from toolbank.system.errors import InputError
from toolbank.system.files import read_json, write_text


@pytest.fixture
def recipe(tmp_path, server):
    path = write_recipe(tmp_path, base_url=server.url, model="some-model", queries=20)
    return lambda *settings: load_recipe(path, settings)


@pytest.fixture
def out(tmp_path):
    return tmp_path / "run"


def plan(recipe, out):
    """The plan with its line breaks taken out."""
    return " ".join(describe_plan(recipe, out).split())


def test_a_plan_calls_no_model_and_leaves_nothing(recipe, server, out):
    assert "Encoder" not in plan(recipe("retrievers.0.type=descriptions"), out)
    told = plan(recipe(), out)
    assert "40 if every attempt is accepted, 80 if only every second one is" in told
    assert "unknown: set generate.price" in told
    assert " time " not in told
    assert not server.calls
    assert not out.exists()


@pytest.mark.parametrize(("pairs", "judged"), [(100, 20), (10, 10)])
def test_a_plan_has_no_more_pairs_than_queries(recipe, out, pairs, judged):
    pairs = f"judge.pairs={pairs}"
    assert f"Judge: {judged} pairs, by" in plan(recipe(pairs), out)
    told = plan(recipe(pairs, "judge.engine=openai", "judge.model=other"), out)
    assert f"Judge: {judged} pairs, by" in told
    assert f"at most {6 * judged}: each pair by 3 criteria, in both orders" in told
    assert "unknown: set judge.price" in told


def test_skipped_objects_are_counted_by_kind(recipe, out, capsys):
    of_json = "sources.0={type: python, package: json}"
    note = r"python:json==\S+ skipped: .* 1 exception .*set `kinds: "
    assert re.search(note, plan(recipe(of_json), out))
    run_recipe(recipe(of_json), out, until="sources")
    assert re.search(note, capsys.readouterr().err)
    assert re.search(note, plan(recipe(of_json, "generate.queries=30"), out))


def test_what_the_folder_holds_is_not_planned_again(recipe, server, out):
    run_recipe(recipe(), out, until="generate")
    made = len(server.calls)
    told = plan(recipe("seed=1"), out)
    assert "replies already" not in told
    assert "40: 20 writes and 20 polishes" in told
    told = plan(recipe("generate.queries=10"), out)
    assert "none, or a few" in told and "tokens" not in told
    assert f"toolbank plan {out}" in told
    assert f"toolbank plan {out}" not in plan(load_recipe(str(out)), out)
    told = plan(recipe("generate.queries=50"), out)
    assert f"holds {made} replies already" in told
    assert (
        "60: 30 writes and 30 polishes, if 100 % of the attempts are accepted" in told
    )
    # The server says that every prompt has 7 tokens and every answer 3.
    assert "a write about 7 in and 3 out; a polish about 7 in and 3 out" in told
    run_recipe(recipe("generate.queries=50"), out, until="generate")
    assert len(server.calls) == made + 60


REPLAYED = ["generate.engine=recorded", "generate.replies=no/such.jsonl"]
ELSEWHERE = [
    "retrievers.0.type=descriptions",
    "retrievers.0.encoder.model=some-owner/some-encoder",
]


def test_an_encoder_that_the_hub_has_is_downloaded_by_the_run(recipe, out, monkeypatch):
    def answer(_, path, *__):
        status = 200 if path == "/api/models/some-owner/some-encoder" else 404
        return status, {}, b'{"id": "some-owner/some-encoder", "siblings": []}'

    with serving(answer) as (url, _):
        monkeypatch.setattr(constants, "ENDPOINT", url)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        told = plan(recipe(*ELSEWHERE), out)
    assert "some-owner/some-encoder: is not on this machine; the run downloads" in told


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (ELSEWHERE, "some-owner/some-encoder is not on this machine"),
        (['evaluate.on=["no/such.jsonl"]'], "it names .*such.jsonl, and there is no"),
        (REPLAYED, "it names .*such.jsonl, and there is no"),
    ],
)
def test_plan_and_run_refuse_alike(recipe, out, monkeypatch, settings, told):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(InputError, match=told) as planned:
        describe_plan(recipe(*settings), out)
    with pytest.raises(InputError) as run:
        run_recipe(recipe(*settings), out)
    assert str(planned.value) == str(run.value)
    assert not out.exists()


def test_a_bank_smaller_than_an_offer_is_told_by_plan_and_run(recipe, out, capsys):
    settings = ["sources.0={type: python, package: bisect}", "generate.engine=rules"]
    settings += ["generate.offered=10", "generate.max_tools=5"]
    told = "4 in place of 10, because the bank has 4 tools, and a query uses at most 4"
    assert told in plan(recipe(*settings), out)
    run_recipe(recipe(*settings), out, until="generate")
    assert told in capsys.readouterr().err
    assert told in plan(recipe(*settings, "generate.queries=7"), out)


def test_replies_of_an_unfinished_run_give_the_accepted_share(recipe, server, out):
    def declines(call):
        if call.asks_polish or call.number % 2:
            return good(call)
        return Answer.json({"declined": True, "reason": "no"})

    server.script = declines
    run_recipe(recipe("generate.concurrency=1"), out, until="generate")
    (out / "bank" / "bank.json").unlink()
    told = plan(recipe(), out)
    assert re.search(r"if \d\d % of the attempts are accepted", told)


def test_no_more_calls_are_planned_than_attempts_are_allowed(recipe, out):
    run_recipe(recipe(), out, until="generate")
    path = out / "bank" / "bank.json"
    info = read_json(path)
    info["counts"]["attempts"] = 10 * info["counts"]["accepted"]
    path.write_text(json.dumps(info))
    # The loop ends after five attempts a query wanted.
    assert "200: 100 writes and 100 polishes, if 10 %" in plan(recipe("seed=1"), out)


def test_money_is_told_by_the_price_that_the_user_gives(recipe, out, tmp_path):
    prices = tmp_path / "prices.yaml"
    prices.write_text("some-model: {input: 1000, output: 0.075}\n")
    told = plan(recipe("generate.price={input: 1000, output: 0.075}"), out)
    price = r"\$1,000.00 a million tokens in and \$0.075 out"
    assert re.search(rf"cost about \$\d+ to \$\d+, at {price}", told)
    assert told == plan(recipe(f"generate.price={prices}"), out)
    prices.write_text("other: {input: 1000, output: 1000}\n")
    told = plan(recipe(f"generate.price={prices}"), out)
    assert "unknown: prices.yaml has no price of some-model" in told


def test_time_follows_from_measured_latencies_and_from_what_is_set(recipe, out):
    run_recipe(recipe(), out, until="generate")
    told = plan(recipe("generate.queries=50", "generate.rpm=2"), out)
    assert "time about 30 min with 64 calls at once (auto may find" in told
    told = plan(recipe("generate.queries=50", "generate.concurrency=1"), out)
    assert "with 1 call at once of" in told


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (["engine=rules"], "by rules. No model is called."),
        (["engine=batch"], "by some-model in batches"),
        (["engine=vllm"], "by some-model through vllm"),
        (
            ["tools_per_query={1: 1, 2: 3}", "min_tools=1", "max_tools=2"],
            "tools exactly 1 in 25 %, 2 in 75 % of the queries",
        ),
    ],
)
def test_what_is_set_for_generation_is_planned(recipe, out, settings, told):
    changed = recipe(*(f"generate.{setting}" for setting in settings))
    assert told in plan(changed, out)
    assert told not in plan(recipe(), out)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ("engine=opneai", ".engine: there is no engine 'opneai'. Did you mean openai?"),
        ("engine=openai; model=''", ".model: not set"),
        ("engine=openai; model=m; parameters={n: 3}", ".parameters.n: can't be"),
        ("engine=openai; model=m; options={submit: true}", ".options.submit: "),
        ("engine=batch; model=m; options={submt: true}", "Did you mean submit?"),
        ("engine=batch; model=m; options={submit: 7}", ".options.submit: "),
        ("engine=vllm; model=''", ".model: not set"),
        ("engine=vllm; model=m; parameters={n: 3}", ".parameters.n: can't be"),
        ("engine=recorded", ".replies: "),
        ("engine=rules; options={a: 1}", ".options.a: "),
    ],
)
@pytest.mark.parametrize("section", ["generate", "judge"])
@pytest.mark.parametrize("work", [plan, run_recipe])
def test_wrong_settings_are_refused_first(recipe, out, section, work, settings, told):
    with pytest.raises(InputError) as caught:
        work(recipe(*(f"{section}.{one}" for one in settings.split("; "))), out)
    if (section, settings) == ("judge", "engine=recorded"):
        told = ".engine: "
    assert (section if told.startswith(".") else "") + told in str(caught.value)
    assert not out.exists()


def test_a_run_needs_the_key_first_and_a_plan_never(recipe, out, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    public = "https://llm.example.com/v1"
    writes = recipe(f"generate.base_url={public}")
    judges = recipe("judge.engine=openai", "judge.model=m", f"judge.base_url={public}")
    for lacking in (writes, judges):
        with pytest.raises(InputError, match="export OPENAI_API_KEY="):
            run_recipe(lacking, out)
        assert not out.exists()
        assert "to do" in plan(lacking, out)
    with pytest.raises(InputError, match="export OPENAI_API_KEY="):
        list(preview_attempts(writes.recipe, out, 1))
    run_recipe(recipe(), out, until="generate")
    assert run_recipe(writes, out, until="generate").did == ()


def test_a_budget_of_dollars_needs_a_price_of_this_model(recipe, out, tmp_path):
    prices = tmp_path / "prices.yaml"
    prices.write_text("other: {input: 1, output: 1}\n")
    settings = [f"generate.price={prices}", "generate.budget={dollars: 1}"]
    assert "prices.yaml has no price of some-model" in plan(recipe(*settings), out)
    with pytest.raises(InputError, match="no price of 'some-model'"):
        run_recipe(recipe(*settings), out, until="generate")
    prices.unlink()
    for work in (plan, run_recipe):
        with pytest.raises(InputError, match=r"names .*prices\.yaml"):
            work(recipe(*settings), out)


def test_a_site_that_was_read_is_not_read_again(out):
    site = f"sources=[{{type: sphinx, base_url: '{closed_url()}'}}]"
    model = ("generate.engine=openai", "generate.model=m")
    recipe = load_recipe("quickstart", [*model, site])
    tools = [Tool(name=f"shop.tool{n}", summary="Does it.") for n in range(12)]
    write_tools(out / "bank" / "tools.parquet", tools)
    write_text(out / "recipe.yaml", dump_recipe(recipe.recipe))
    write_origin(RunFolder(out), recipe.recipe)
    assert "over 12 tools" in plan(recipe, out)


def test_a_changed_price_changes_only_the_accounts(recipe, server, out, tmp_path):
    run_recipe(recipe(), out, until="retrievers")
    bank = out / "bank" / "bank.json"
    first = read_json(bank)["calls"]
    assert first["write"]["replies"] == first["polish"]["replies"] == 20
    assert first["write"]["prompt_tokens"] == 7 * 20
    assert first["write"]["dollars"] is None
    assert set(first["write"]["latency_s"]) == {"p50", "p90", "p99", "max"}
    made = len(server.calls)

    priced = recipe("generate.price={input: 1000, output: 1000}")
    result = run_recipe(priced, out, until="retrievers")
    assert result.did == ()
    assert read_json(bank)["calls"]["write"]["dollars"] == pytest.approx(0.2)
    assert run_recipe(priced, out, until="retrievers").did == ()

    prices = tmp_path / "prices.yaml"
    prices.write_text("some-model: {input: 2000, output: 2000}\n")
    filed = recipe(f"generate.price={prices}")
    assert run_recipe(filed, out, until="retrievers").did == ()
    assert read_json(bank)["calls"]["write"]["dollars"] == pytest.approx(0.4)
    assert len(server.calls) == made


def test_the_judges_calls_have_accounts_of_their_own(recipe, server, out):
    model = f"judge={{engine: openai, base_url: '{server.url}', model: o, pairs: 2}}"
    priced = recipe(model, "judge.price={input: 1000, output: 1000}")
    run_recipe(priced, out, until="judge")
    calls = read_json(out / "judge.json")["calls"]
    assert [*calls] == ["judge"]
    assert calls["judge"]["replies"] == 12
    assert calls["judge"]["dollars"] == pytest.approx(0.12)
    assert "judge" not in read_json(out / "bank" / "bank.json")["calls"]
    assert "holds 12 replies already" in plan(recipe(model, "judge.pairs=3"), out)


def test_a_stage_whose_batch_has_no_replies_is_planned_as_waiting(recipe, out):
    run_recipe(recipe(), out, until="generate")
    batch = recipe("verify={engine: batch, model: m}")
    assert run_recipe(batch, out, until="verify").waiting
    [file] = (out / "batch").glob("round-001-*.jsonl")
    told = describe_plan(batch, out)
    assert re.search(rf"^ +verify +.*waits for the replies to {file}$", told, re.M)
    answer = answer_file(file.read_text(), good)
    file.with_name("replies.jsonl").write_text(answer)
    assert "waits" not in describe_plan(batch, out)
