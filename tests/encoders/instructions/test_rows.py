from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from toolbank.papers.instructions.data import Task
from toolbank.papers.instructions.training import draw_rows, hold_back

TASKS = st.builds(Task, st.sampled_from("abc"), st.sampled_from("xyz"))


@given(st.lists(TASKS, max_size=20), st.integers(0, 5))
def test_hard_negatives_share_exactly_one_of_verb_and_noun(tasks, seed):
    for anchor, positive, by_verb, by_noun in draw_rows(tasks, 2, True, seed):
        task = tasks[anchor]
        assert anchor != positive
        assert tasks[positive] == task
        alike = [t for t in tasks if t != task and t.verb == task.verb]
        if alike:
            assert tasks[by_verb].verb == task.verb
            assert tasks[by_verb].noun != task.noun
        else:
            assert by_verb == positive
        if any(t != task and t.noun == task.noun for t in tasks):
            assert tasks[by_noun].noun == task.noun
            assert tasks[by_noun].verb != task.verb
        else:
            assert by_noun == positive


@given(st.lists(TASKS, max_size=20), st.booleans())
def test_each_instruction_that_is_not_alone_has_its_rows(tasks, hard_negatives):
    rows = draw_rows(tasks, 3, hard_negatives, 0)
    several = [i for i, task in enumerate(tasks) if tasks.count(task) > 1]
    assert sorted(rows[:, 0]) == sorted(several * 3)
    assert (rows == draw_rows(tasks, 3, hard_negatives, 0)).all()


def test_tasks_are_held_back_whole():
    tasks = [Task(verb, noun) for verb, noun in product("abcde", "xy")] * 4
    held = hold_back(tasks, 0.3, 4, seed=1)
    by_task = {
        task: {h for t, h in zip(tasks, held, strict=True) if t == task}
        for task in tasks
    }
    assert sorted(len(found) for found in by_task.values()) == [1] * 10
    assert sum(held) == 12
    assert not any(hold_back(tasks, 0.3, 5, seed=1))
