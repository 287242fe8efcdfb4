from functools import cache

import pytest

from tests.retrievers.small_methods import TRAINED, configure, encoder_for, fit, fit_one
from tests.world import make_bank
from toolbank.encoders.sentence import SentenceConfig
from toolbank.retrievers.settings import NearestConfig, Tool2VecConfig

SUBJECTS = [
    *("rain weather cold", "song jazz music", "parcel shipment track"),
    *("mail email reply", "road car travel", "rose garden lawn", "house room door"),
    *("light dark lamp", "valve water drip", "paint colour wall", "book page library"),
    *("money price pay", "train station ticket", "flight airport plane"),
    *("dinner recipe cook", "photo camera picture"),
]
UNUSED = (2, 7, 11, 14)
FORMS = ("please {} now", "i want {} today", "what is {} for me", "can you do {} again")

ASKED = ("the {1} of the {2}", "{0} the {1} of the {2}", "of the {2} the {1} please")


@pytest.fixture(scope="module")
def bank():
    """Each tool has a subject of its own; a fourth of them are used by no train query."""
    words = [subject.split() for subject in SUBJECTS]
    uses = [
        (
            form.format(f"{each[number % 3]} and {each[1]}"),
            each[:1],
            "train" if number < 3 else "validation",
        )
        for place, each in enumerate(words)
        if place not in UNUSED
        for number, form in enumerate(FORMS)
    ]
    return make_bank({a: f"the {b} of the {c}" for a, b, c in words}, uses)


@pytest.fixture(scope="module")
def fit_once(bank, tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoder") / "tiny"
    encoder = encoder_for(folder, bank, *FORMS)
    configs = configure(encoder, epochs=3, batch_size=8)
    # Of random vectors a head learns nothing that a new request could be told by.
    configs["mlc-frozen"] = configure(SentenceConfig())["mlc-frozen"]
    return cache(lambda label: fit(label, configs, bank))


def find_unseen(retriever, k):
    """The share of requests for a tool without use that have it among the first k."""
    asked = [
        (form.format(*SUBJECTS[place].split()), place)
        for place in UNUSED
        for form in ASKED
    ]
    indices, _ = retriever.search([text for text, _ in asked], k)
    right = [place in row for (_, place), row in zip(asked, indices, strict=True)]
    return sum(right) / len(right)


@pytest.mark.parametrize("n_train", [1, 2, 3])
@pytest.mark.parametrize("unused", [UNUSED, (0, 1, 3, 4, 5, 8, 9, 12, 13, 15)])
@pytest.mark.parametrize("label", ["tool2vec", "nearest", "nearest-bm25"])
def test_tools_with_few_queries_are_found(bank, fit_once, label, n_train, unused):
    used = [place for place in range(len(SUBJECTS)) if place not in unused]
    texts = [" and ".join(SUBJECTS[place].split()[:2]) for place in used]
    uses = [
        (form.format(text), text.split()[:1], "train")
        for text in texts
        for form in FORMS[:n_train]
    ]
    few = make_bank({tool.name: tool.summary for tool in bank.tools}, uses)
    encoder = fit_once("descriptions").config.encoder
    config = {
        "tool2vec": Tool2VecConfig(encoder=encoder),
        "nearest": NearestConfig(encoder=encoder),
        "nearest-bm25": NearestConfig(by="bm25"),
    }[label]
    indices, _ = fit_one(config, few).search([FORMS[3].format(t) for t in texts], 3)
    found = [p in row for p, row in zip(used, indices.tolist(), strict=True)]
    assert sum(found) >= 0.8 * len(found)


@pytest.mark.parametrize("label", ["tool2vec", *TRAINED])
def test_a_tool_without_use_is_found_no_worse_than_by_descriptions(fit_once, label):
    found = find_unseen(fit_once(label), 5)
    assert found >= max(0.9, find_unseen(fit_once("descriptions"), 5))
