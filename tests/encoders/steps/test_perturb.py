import json
import re
from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.corpus_files import CORPUS, check_expected
from toolbank.papers.steps.perturb import PERTURBATIONS, perturb

WORDS = "she has 3 apples and is not sad, they were 12.5 * 4 = 50 5-2 (7/2) no café May it's x"
STEP = st.lists(st.sampled_from(WORDS.split()), min_size=1, max_size=8).map(
    " ".join
) | st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
CHAINS = st.lists(STEP, max_size=5).map(tuple)
ANY = given(steps=CHAINS, others=CHAINS, seed=st.text(max_size=3))

NUMBERS = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")
SIGNS = re.compile(r"[-+*/^\u00d7÷x]")
WORD = re.compile(r"[^\W\d_]+(?:['\u2019-][^\W\d_]+)*")


def changed_step(before, after):
    """The one step that differs, as it was and as it is."""
    assert len(after) == len(before)
    [(old, new)] = [(a, b) for a, b in zip(before, after, strict=True) if a != b]
    return old, new


def differences(before, after):
    """Pairs of steps that differ; there is one at least."""
    assert len(after) == len(before)
    found = [(a, b) for a, b in zip(before, after, strict=True) if a != b]
    assert found
    return found


@pytest.mark.parametrize("kind", PERTURBATIONS)
@ANY
def test_a_seed_gives_one_chain_and_never_the_given_one(kind, steps, others, seed):
    found = perturb(kind, steps, others, seed)
    assert found == perturb(kind, steps, others, seed)
    assert found != steps


def leaves_one_out(steps, found):
    return any(found == steps[:i] + steps[i + 1 :] for i in range(len(steps)))


def repeats_one(steps, found):
    return any(found == (*steps[: i + 1], *steps[i:]) for i in range(len(steps)))


def swaps_two(steps, found):
    (a, b), (c, d) = differences(steps, found)
    return (a, b) == (d, c)


def keeps_every_step(steps, found):
    return Counter(found) == Counter(steps)


def distinct(steps):
    return len({step.strip() for step in steps})


@pytest.mark.parametrize(
    ("kind", "applies", "holds"),
    [
        ("remove", lambda steps: len(steps) > 1, leaves_one_out),
        ("duplicate", bool, repeats_one),
        ("swap", lambda steps: distinct(steps) > 1, swaps_two),
        ("shuffle", lambda steps: distinct(steps) > 1, keeps_every_step),
    ],
)
@ANY
def test_steps_move_and_stay_as_they_are(kind, applies, holds, steps, others, seed):
    found = perturb(kind, steps, others, seed)
    assert holds(steps, found) if applies(steps) else found is None


@ANY
def test_hallucinate_adds_a_step_of_the_other_chain(steps, others, seed):
    found = perturb("hallucinate", steps, others, seed)
    if not steps or set(others) <= set(steps):
        assert found is None
    else:
        [place] = [
            place
            for place in range(len(found))
            if found[:place] + found[place + 1 :] == steps
        ]
        assert found[place] in others


@ANY
def test_negate_adds_or_takes_one_not(steps, others, seed):
    found = perturb("negate", steps, others, seed)
    if found is not None:
        longer, shorter = sorted(changed_step(steps, found), key=len, reverse=True)
        cuts = [m.span() for m in re.finditer(" not", longer)]
        assert shorter in {longer[:start] + longer[end:] for start, end in cuts}


@ANY
def test_grammar_changes_words_of_one_step_and_no_sign_or_number(steps, others, seed):
    found = perturb("grammar", steps, others, seed)
    if found is not None:
        old, new = changed_step(steps, found)
        assert NUMBERS.findall(old) == NUMBERS.findall(new)
        left, right = Counter(WORD.findall(old)), Counter(WORD.findall(new))
        assert (left - right).total() <= 1
        assert (right - left).total() <= 1


@pytest.mark.parametrize("kind", ["shuffle-numbers", "change-numbers"])
@ANY
def test_all_but_the_numbers_stays(kind, steps, others, seed):
    found = perturb(kind, steps, others, seed)
    for old, new in differences(steps, found) if found else ():
        assert NUMBERS.sub("#", old) == NUMBERS.sub("#", new)
        left, right = NUMBERS.findall(old), NUMBERS.findall(new)
        if kind == "shuffle-numbers":
            assert Counter(left) == Counter(right)
        else:
            assert sum(a != b for a, b in zip(left, right, strict=True)) == 1


@pytest.mark.parametrize("kind", ["shuffle-operations", "change-operations"])
@ANY
def test_all_but_the_operations_stays(kind, steps, others, seed):
    found = perturb(kind, steps, others, seed)
    for old, new in differences(steps, found) if found else ():
        changed = [(a, b) for a, b in zip(old, new, strict=True) if a != b]
        assert all(SIGNS.fullmatch(sign) for pair in changed for sign in pair)
        if kind == "shuffle-operations":
            assert Counter(old) == Counter(new)
        else:
            assert len(changed) == 1


def test_what_it_comes_to(update_corpus):
    """All that sixty seeds draw; nothing of what can't be changed."""
    file = CORPUS / "perturbations" / "steps.json"
    found = []
    for kind, steps in json.loads(file.read_text()):
        drawn = (PERTURBATIONS[kind](tuple(steps), Random(n), ()) for n in range(60))
        found.append([kind, steps, sorted({one for one in drawn if one})])
    expected = file.with_name("steps.tools.json")
    check_expected(expected, found, update=update_corpus)
