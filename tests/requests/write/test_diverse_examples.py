"""Which in-context examples a prompt shows where they are to differ."""

import json
from collections import Counter

import pytest

from tests.tiny_models import tiny_encoder
from toolbank.encoders.sentence import SentenceConfig
from toolbank.requests.write.config import GenerateConfig
from toolbank.requests.write.prompts import WriterPrompts

TASKS = {
    "jazz": ["play jazz in the room", "please play jazz in my room"],
    "email": [
        f"delete every email of {day} and send a reply" for day in ("today", "monday")
    ],
    "rain": [f"will it rain {word} or get cold" for word in ("again", "then", "there")],
}


@pytest.fixture
def encoder(tmp_path, monkeypatch):
    """A tiny encoder; in ./prompts, examples of three tasks, of the last one the most."""
    lines = [
        {
            "tools": [{"name": name, "description": name} for name in (task, "other")],
            "query": query,
            "explanation": task,
        }
        for task, queries in TASKS.items()
        for query in queries
    ]
    file = tmp_path / "prompts" / "examples" / "tasks.jsonl"
    file.parent.mkdir(parents=True)
    file.write_text("\n".join(map(json.dumps, lines)))
    monkeypatch.chdir(tmp_path)
    return SentenceConfig(model=str(tiny_encoder(tmp_path / "tiny")))


def draw(encoder=None, examples=3, attempts=30):
    config = GenerateConfig(examples=examples, diverse_examples=encoder)
    prompts = WriterPrompts("tasks", config, seed=1)
    return [
        [example["explanation"] for example in prompts.draw_examples(attempt, 3, 2)]
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
    prompts = WriterPrompts(
        "tasks", GenerateConfig(diverse_examples=encoder, examples=2), 0
    )
    shown = [one["query"] for n in range(60) for one in prompts.draw_examples(n, 3, 2)]
    assert Counter(shown).keys() == {text for one in TASKS.values() for text in one}


@pytest.mark.parametrize("examples", [0, 1, 7, 50])
def test_any_number_of_examples_can_be_asked_for(encoder, examples):
    for tasks in draw(encoder, examples, attempts=3):
        assert len(tasks) == min(examples, 7)
