import hashlib
import itertools
import json
import re
import shutil
from collections import Counter

import pytest
from jsonschema import Draft202012Validator

from tests.corpus_files import CORPUS
from tests.tiny_models import tiny_encoder
from toolbank.bank.records import ReturnValue, Tool
from toolbank.config.assets import shipped
from toolbank.encoders.sentence import SentenceConfig
from toolbank.requests.write.checks import Draft, is_english, read_draft, read_polished
from toolbank.requests.write.config import GenerateConfig
from toolbank.requests.write.prompts import (
    WriterPrompts,
    find_examples,
    load_examples,
    prompt_hash,
    prompt_notes,
)
from toolbank.system.errors import InputError

TOOLS = (
    Tool(
        name="shop.nan_total",
        summary="Add up values and leave gaps out.",
        parameters={
            "type": "object",
            "properties": {"values": {"description": "What to add up. More of it."}},
        },
        returns=(ReturnValue(name="total", description="The total."),),
    ),
    Tool(name="shop.sort", summary="Order."),
    Tool(name="shop.sort2", summary="Again."),
)
DRAFT = Draft("Order the sales. Then add them up.", ("a", "b"), "Ordered, then added.")
DOMAINS = ["numpy", "pandas", "aws", "generic"]


def prompts(domain="numpy", seed=0, **settings):
    return WriterPrompts(domain, GenerateConfig(**settings), seed)


def write(at_most=2, tools=TOOLS, attempt=0, **settings):
    return prompts(**settings).write(attempt, tools, at_most)


def text(request):
    (message,) = request.messages
    return message.content


@pytest.fixture
def user_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def put(name, content):
        path = tmp_path / "prompts" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        return path

    return put


@pytest.mark.parametrize(
    ("settings", "numbers", "expected"),
    [
        ({}, (2, 3, 4, 5), "d6ccf524c080ca0d"),
        ({"min_tools": 1}, (1, 3), "0572d01aebf1277d"),
        ({"tools_per_query": {1: 1.0, 4: 1.0}}, (1, 4), "61fe261d56c6f6fc"),
    ],
)
def test_the_prompts_stay_as_they_are(settings, numbers, expected):
    """With any change, replies that were paid for are not used again."""
    keys = []
    for domain, number in itertools.product(DOMAINS, numbers):
        made = prompts(domain, seed=number, **settings)
        least = number if "tools_per_query" in settings else None
        drafted = made.write(7, TOOLS, number, least)
        polish = made.polish(7, DRAFT, TOOLS[:2])
        keys += [request.key("a model") for request in (drafted, polish)]
    told = " ".join([*keys, prompt_hash("numpy", GenerateConfig(**settings))])
    assert hashlib.sha256(told.encode()).hexdigest()[:16] == expected


def test_one_tool_is_shown_with_examples_of_one_tool():
    prompt = text(write(at_most=1, tools_per_query={1: 1.0}))
    answers = re.findall(r"^Answer: (.*)$", prompt, re.MULTILINE)
    assert [len(json.loads(answer)["tools"]) for answer in answers] == [1] * 5


def example(query, tools):
    tools = [{"name": name, "description": f"To {name}."} for name in tools]
    return json.dumps({"tools": tools, "query": query, "explanation": "It chains."})


def test_examples_of_ones_own_that_need_one_tool_go_where_one_is_asked_for(user_file):
    lines = [example("one", ["mix"]), example("two", ["mix", "bake"])]
    user_file("examples/cakes.jsonl", "\n".join(lines))
    mixed = {"domain": "cakes", "tools_per_query": {1: 1.0, 2: 1.0}}
    for number, shown in ((1, "one"), (2, "two")):
        [drawn] = prompts(**mixed).draw_examples(0, number, number)
        assert drawn["query"] == shown
    [drawn] = prompts(domain="cakes").draw_examples(0, 5, 2)
    assert drawn["query"] == "two"


def test_the_schema_allows_the_shown_names_only():
    validator = Draft202012Validator(write().schema)
    answer = {"declined": False, "reason": "", "explanation": "e", "draft": "d"}
    assert validator.is_valid({**answer, "tools": ["shop.sort2", "shop.nan_total"]})
    assert not validator.is_valid({**answer, "tools": ["sort"]})


def test_examples_are_a_function_of_seed_and_attempt():
    drawn = [prompts(seed=1).draw_examples(7, 5, 2) for _ in range(2)]
    assert drawn[0] == drawn[1]
    assert len(drawn[0]) == len({example["query"] for example in drawn[0]}) == 5
    assert prompts(seed=2).draw_examples(7, 5, 2) != drawn[0]
    assert prompts(seed=1).draw_examples(8, 5, 2) != drawn[0]
    for example in drawn[0]:
        assert example["draft"] in text(write(attempt=7, seed=1))
        assert example["query"] not in text(write(attempt=7, seed=1))
    assert "# Examples" not in text(write(examples=0))


def test_what_the_prompts_show_as_an_answer_is_one_that_can_be_read():
    shown = re.findall(r"^(?:To decline|Answer): ({.declined.*)$", text(write()), re.M)
    shown += re.findall(r'^{"declined".*$', text(write()), re.M)
    assert len(shown) == 5 + 2
    assert all(isinstance(read_draft(line), Draft) for line in shown)
    polish = text(prompts().polish(0, DRAFT, TOOLS[:2]))
    for line in re.findall(r"^Answer: (.*)$", polish, re.MULTILINE):
        answer = json.loads(line)
        assert answer["reason"]
        assert isinstance(read_polished(line, answer["query"]), str)


def test_tools_and_drafts_are_never_read_as_templates():
    evil = "{{ 7 * 6 }}{% for x in ().__class__.__base__.__subclasses__() %}"
    tool = Tool(name=evil, summary=evil)
    assert text(write(tools=(tool, TOOLS[0]), instructions=evil)).count(evil) == 3
    polish = prompts().polish(0, Draft(evil, (), evil), (tool,))
    assert text(polish).count(evil) == 3


def test_all_that_a_template_may_use_is_there(tmp_path, monkeypatch):
    shutil.copytree(CORPUS / "prompts", tmp_path / "prompts")
    monkeypatch.chdir(tmp_path)
    made = prompts(domain="cakes", instructions=" In pence. ")
    polish = made.polish(0, DRAFT, TOOLS[:2])
    requests = {"write": made.write(0, TOOLS, 3), "polish": polish}
    for name, request in requests.items():
        expected = (CORPUS / "prompts" / f"{name}.txt").read_text()
        assert text(request) == expected.removesuffix("\n")


def test_a_users_own_template_wins_and_changes_the_hash(user_file):
    ours = prompt_hash("numpy", GenerateConfig())
    user_file("write.j2", "{{ domain }}, {{ tools | length }}!")
    assert text(write()) == "numpy, 3!"
    assert prompt_hash("numpy", GenerateConfig()) != ours
    assert prompts().hash == prompt_hash("numpy", GenerateConfig())


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("fine\n{% for tool in tools %}\n", 2),
        ("fine\n\n{{ toolz }}", 3),
        ("a\n{{ 1 / 0 }}", 2),
        ("a\n{% include 'polish.j2' %}", 2),
    ],
)
def test_a_broken_template_is_told_by_file_and_line(user_file, content, line):
    path = user_file("write.j2", content)
    with pytest.raises(InputError) as caught:
        write()
    assert f"{path}, line {line}:" in str(caught.value)


def test_a_users_examples_make_a_new_domain(user_file):
    good, name = example("Bake a cake.", ["a", "b"]), "examples/cakes.jsonl"
    user_file(name, f"{good}\n\n")
    assert [one.query for one in load_examples("cakes")] == ["Bake a cake."]
    assert find_examples("cakes").own
    user_file(name, good + '\n{"query": 1}')
    with pytest.raises(InputError, match=r"cakes.jsonl: (.|\n)*line 2: tools"):
        load_examples("cakes")


@pytest.mark.parametrize("domain", ["unheard-of", "../../secret", ""])
def test_a_domain_without_examples_gets_those_for_any_api(domain):
    assert find_examples(domain).path == shipped("prompts") / "examples/generic.jsonl"


@pytest.mark.parametrize("domain", DOMAINS)
def test_shipped_examples_are_what_we_ask_a_writer_for(domain):
    examples = load_examples(domain)
    assert len(examples) >= {"numpy": 30, "generic": 8}.get(domain, 10)
    openings = [" ".join(one.query.split()[:2]).lower() for one in examples]
    assert len(set(openings)) == len(examples)
    for example in examples:
        names = [tool.name for tool in example.tools]
        assert 2 <= len(set(names)) == len(names) <= 5
        assert 12 <= len(example.query.split()) <= 60
        assert is_english(example.query)
        assert "_" not in example.query + example.draft
        assert is_english(example.draft) and example.draft != example.query


def test_attempts_with_the_same_tools_are_asked_for_different_requests():
    made = prompts()
    for of in (
        [text(made.write(n, TOOLS, 2)) for n in range(12)],
        [text(made.polish(n, DRAFT, TOOLS[:2])) for n in range(12)],
    ):
        guides = {
            re.search(r"^- Their field is .*|^- Begin .*", one, re.M)[0] for one in of
        }
        assert len(guides) == 12


def test_a_drawn_tool_is_shown_with_those_to_keep_out():
    made = prompts(tools_per_query={1: 1.0})
    request = made.write(0, TOOLS[:1], 1, 1, TOOLS[1:])
    chosen, others = text(request).split("# Tools to keep out")
    assert TOOLS[0].name in chosen
    assert all(f"- {tool.name}: {tool.summary}" in others for tool in TOOLS[1:])
    assert request.schema["properties"]["tools"]["items"]["enum"] == [TOOLS[0].name]


def test_whose_prompts_are_used_is_told(user_file):
    user_file("write.j2", "Write.")
    for domain, config, told in (
        ("numpy", {}, ["write.j2: .*used"]),
        ("weather", {}, ["write.j2: .*used", "prompts/examples/weather.jsonl"]),
        ("numpy", {"min_tools": 1}, ["write.j2: .*not used.*write-number.j2"]),
    ):
        notes = prompt_notes(domain, GenerateConfig(**config))
        assert len(notes) == len(told)
        assert all(map(re.search, told, notes))


TASKS = {
    "jazz": ["play jazz in the room", "please play jazz in my room"],
    "email": [
        f"delete every email of {day} and send a reply" for day in ("today", "monday")
    ],
    "rain": [f"will it rain {word} or get cold" for word in ("again", "then", "there")],
}


@pytest.fixture
def encoder(tmp_path, user_file):
    """A tiny encoder; in ./prompts, examples of three tasks."""
    pairs = [(task, query) for task, queries in TASKS.items() for query in queries]
    lines = [example(query, [task, "other"]) for task, query in pairs]
    user_file("examples/tasks.jsonl", "\n".join(lines))
    return SentenceConfig(model=str(tiny_encoder(tmp_path / "tiny")))


def draw(encoder=None, examples=3, attempts=30):
    made = prompts("tasks", 1, examples=examples, diverse_examples=encoder)
    return [
        [one["tools"][0]["name"] for one in made.draw_examples(attempt, 3, 2)]
        for attempt in range(attempts)
    ]


def test_each_prompt_shows_one_of_each_task_in_any_order(encoder):
    drawn = draw(encoder)
    assert {tuple(sorted(tasks)) for tasks in drawn} == {("email", "jazz", "rain")}
    assert len({tuple(tasks) for tasks in drawn}) > 1
    assert draw(encoder) == drawn
    # Without it the most frequent task comes twice in some, and another one in none.
    assert any(len(set(tasks)) < 3 for tasks in draw())


def test_all_of_a_group_have_their_turn(encoder):
    made = prompts("tasks", diverse_examples=encoder, examples=2)
    shown = [one["query"] for n in range(60) for one in made.draw_examples(n, 3, 2)]
    assert Counter(shown).keys() == {text for one in TASKS.values() for text in one}


@pytest.mark.parametrize("examples", [0, 1, 7, 50])
def test_any_number_of_examples_can_be_asked_for(encoder, examples):
    for tasks in draw(encoder, examples, attempts=3):
        assert len(tasks) == min(examples, 7)
