"""A run folder under any history: the same results, nothing paid for twice, no file of the user's lost.

Hypothesis chooses the steps. What must hold after each is in `Project`.
"""

import signal

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.run.disturbed import Fault
from tests.run.history import EDITED, ROOT, SOURCES, Model, Project

LIGHT = ("sources", "generate", "asks", "judge", "retrievers")
"""Stages that need no library which takes seconds to import."""
STAGES = (*LIGHT, "evaluate", "report")
BM25 = {"type": "bm25"}
WITH_REQUESTS = {"type": "bm25", "name": "learned", "requests": True}
EDITS = {
    "name": ["mine", "other"],
    "seed": [0, 7],
    "retrievers": [[BM25], [BM25, WITH_REQUESTS], [WITH_REQUESTS]],
    "generate.queries": [5, 8, 12],
    "generate.max_tools": [2, 3],
    "generate.timeout": [60, 90],
    "asks.per_tool": [2, 4],
    "judge.pairs": [4, 6],
    "split.test": [0.3, 0.5],
}
"""Keys of the recipe, and the values that the user gives them."""
RECIPE_TO_RUN = ("mine.yaml", "--out", "runs/mine")
MINE, DAMAGED = "the user's", "stages.json is damaged"
PLACES = ("handed", "foreign", "runs/mine", "runs/mine/bank", "runs", ".", "tools.json")
HANDING_ON = (
    ("pack", "runs/mine", "--out"),
    ("publish", "runs/mine", "--to"),
    ("export", "runs/mine", "--format", "jsonl", "--out"),
    ("export", "runs/mine", "--format", "datasets", "--out"),
    ("export", "runs/mine", "--format", "mcp", "--out"),
)

MOMENTS = st.one_of(
    st.tuples(st.just("request"), st.integers(1, 40)),
    st.tuples(st.just("write"), st.integers(1, 120)),
)
FAULTS = st.none() | st.builds(
    lambda number, moment: Fault(number, *moment),
    st.sampled_from([signal.SIGKILL, signal.SIGKILL, signal.SIGINT]),
    MOMENTS,
)


class Machine(RuleBasedStateMachine):
    """Steps that a user takes; unless `whole`, those alone that import nothing heavy."""

    def __init__(self, folder, model, fresh, *, whole):
        super().__init__()
        self.whole = whole
        self.last = (STAGES if whole else LIGHT)[-1]
        self.project = Project(folder, model, fresh, self.last)

    @initialize(fault=FAULTS)
    def begin(self, fault):
        self.run(None, None, replace=False, fault=fault)

    @rule(
        start=st.none() | st.sampled_from(STAGES),
        until=st.none() | st.sampled_from(STAGES),
        replace=st.booleans(),
        fault=FAULTS,
    )
    def run(self, start, until, replace, fault):
        heaviest = LIGHT[-1] if fault else self.last
        if until is None or STAGES.index(until) > STAGES.index(heaviest):
            until = heaviest
        if start and STAGES.index(start) > STAGES.index(until):
            start = until
        options = ["--from", start] if start else []
        options += ["--until", until]
        options += ["--replace"] if replace else []
        done = self.project.do("run", *RECIPE_TO_RUN, *options, fault=fault)
        if done.returncode == 0 and until not in LIGHT[:3]:
            self.project.compare(measured=until not in LIGHT)

    @precondition(lambda self: self.project.has_news("run runs/mine"))
    @rule()
    def run_as_it_was(self):
        self.project.do("run", "runs/mine", "--until", self.last)

    @rule(key=st.sampled_from(sorted(EDITS)), data=st.data())
    def edit_recipe(self, key, data):
        value = data.draw(st.sampled_from(EDITS[key]))
        section, _, name = key.rpartition(".")
        place = self.project.recipe[section] if section else self.project.recipe
        place[name] = value
        self.project.write_recipe()
        self.project.history.append(f"{key} is {value}")

    @rule(name=st.sampled_from(["write.j2", "polish.j2"]), more=st.sampled_from("ab-"))
    def edit_prompt(self, name, more):
        place = f"prompts/{name}"
        if more == "-":
            self.project.remove(place)
        else:
            bundled = (ROOT / place).read_text()
            self.project.write(place, f"{bundled}\nMind the letter {more}.\n")
        self.project.history.append(f"{place}: {more}")

    @rule(state=st.sampled_from(sorted(SOURCES)))
    def change_source(self, state):
        self.project.write_source(state)
        self.project.history.append(f"the source is {state}")

    @rule(force=st.booleans(), fault=FAULTS)
    def refresh(self, force, fault):
        options = ["--force"] if force else []
        self.project.do("refresh", "runs/mine", *options, fault=fault)

    @rule(command=st.sampled_from(HANDING_ON), place=st.sampled_from(PLACES))
    def hand_on(self, command, place):
        # To pack imports torch.
        if self.whole or command[0] != "pack":
            self.project.do(*command, place)

    @precondition(lambda self: (self.project.run_folder / "recipe.yaml").is_file())
    @rule(
        name=st.sampled_from(
            ["runs/mine/notes.txt", "runs/notes.txt", "foreign/a/b.json", "bank/mine"]
        )
    )
    def put_file(self, name):
        self.project.write(name, MINE)

    @precondition(lambda self: (self.project.run_folder / "bank").is_dir())
    @rule(name=st.sampled_from(["bank/mine.csv", EDITED]))
    def put_into_run(self, name):
        if name == EDITED and not self.project.is_written(name):
            return
        text = f"{MINE} {len(self.project.history)}"
        self.project.put_into_run(name, text)
        self.project.history.append(f"{name}: {text}")

    @precondition(lambda self: self.project.has_news(DAMAGED))
    @precondition(lambda self: (self.project.run_folder / "stages.json").is_file())
    @rule()
    def lose_accounts(self):
        self.project.lose_accounts()
        self.project.history.append(DAMAGED)

    def teardown(self):
        """However it went, a recipe comes to its end, and to the same; another one, too."""
        self.project.write_source("as at first")
        if (self.project.run_folder / "bank").is_dir():
            self.put_into_run("bank/mine.csv")
        self.project.recipe["seed"] += 1
        self.project.write_recipe()
        self.project.do("refresh", "runs/mine", "--force")
        done = self.project.do("run", *RECIPE_TO_RUN, "--replace", "--until", self.last)
        assert done.returncode == 0, (self.project.history, done.stderr)
        self.project.compare(measured=self.whole)


@pytest.fixture(scope="module")
def make_machine(tmp_path_factory):
    """Makes machines that share a model, and what runs without a history give."""
    folder, fresh = tmp_path_factory.mktemp("machine"), {True: {}, False: {}}
    with Model() as model:
        yield lambda *, whole: Machine(folder, model, fresh[whole], whole=whole)


def run_machine(make, examples, steps, **more):
    run_state_machine_as_test(
        make,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            **more,
        ),
    )


@pytest.mark.slow
def test_a_run_comes_out_the_same_whatever_was_done_to_it(make_machine):
    run_machine(
        lambda: make_machine(whole=False),
        examples=3,
        steps=8,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
    )


@pytest.mark.slow
def test_a_run_comes_out_the_same_after_many_histories(make_machine):
    for whole in (False, True):
        run_machine(
            lambda whole=whole: make_machine(whole=whole),
            examples=100,
            steps=20,
            phases=[Phase.generate],
        )
