import pytest

from tests.requests.quality.banks import TOOLS, bank
from toolbank.requests.quality.measure import (
    measure_duplicates,
    measure_leaks,
    measure_polish,
)
from toolbank.requests.quality.texts import (
    make_asks,
    make_requests,
    make_tools,
    measure_openings,
    measure_overlap,
)


def test_openings_are_the_first_three_words():
    texts = ["I need to go.", "i need to, stay", "I NEED to", "Stay here", ""]
    found = measure_openings(make_requests(bank(*((t, ["x"]) for t in texts))))
    assert found.commonest == pytest.approx(
        {"i need to": 0.6, "": 0.2, "stay here": 0.2}
    )
    assert found.share == pytest.approx(1)
    many = bank(*((f"{n} is one", ["x"]) for n in range(40)))
    found = measure_openings(make_requests(many))
    assert (len(found.commonest), found.share) == (10, pytest.approx(10 / 40))
    assert measure_openings(make_requests(bank())) is None


def test_leaks_are_names_that_are_said():
    rows = [
        ("Use find_order for it", ["shop.find_order"]),  # an identifier, and no words
        ("Please find order 12", ["shop.find_order", "shop.sum"]),
        ("What is the Sum of it?", ["shop.sum"]),
        ("Find the order", ["shop.find_order"]),
        ("Summarise it", ["shop.sum"]),
        ("cancel order 3, and sum it", ["shop.sum", "shop.undo"]),
        ("sum it", ["shop.weigh"]),
        ("x", ["shop.weigh"]),
    ]
    found = measure_leaks(make_requests(bank(*rows)), TOOLS)
    assert found.identifier == 1 / 8
    assert found.name == 3 / 8
    assert found.word == 1 / 8
    assert measure_leaks(make_requests(bank()), TOOLS) is None
    assert measure_leaks(make_requests(bank(*rows)), ()) is None


def test_overlap_by_hand_and_by_kind_of_asking():
    shop = bank(
        # Of find, order, sum it says find and sum; of find, customer, sum, money three... two are
        # of the tools' texts: find, customer, sum.
        ("Find the customer, and sum the money.", ["shop.find_order", "shop.sum"]),
        ("heavy box", ["shop.weigh", "not.there"]),
        ("of the", ["shop.weigh"]),
        asks=[
            ("shop.weigh", "terse", "weigh parcel"),
            ("shop.weigh", "plain", "How heavy?"),
            ("shop.sum", "plain", "How heavy?"),
        ],
    )
    tools = make_tools(shop)
    found = measure_overlap(make_requests(shop), make_asks(shop), tools)
    assert [(one.kind, one.n) for one in found] == [
        *(("requests", 2), ("plain", 1), ("terse", 1))
    ]
    requests, plain, terse = found
    assert requests.name == pytest.approx((2 / 3 + 0) / 2)
    assert requests.own == pytest.approx((3 / 4 + 0) / 2)
    assert requests.own_bins == (1, 0, 0, 0, 0, 0, 0, 1, 0, 0)
    assert (terse.name, terse.own, terse.own_bins[-1]) == (1, 1, 1)
    assert (plain.name, plain.own) == (0, 0)
    nothing = bank(("heavy box", ["x"]), tools=())
    assert not measure_overlap(
        make_requests(nothing), make_asks(nothing), make_tools(nothing)
    )


def test_polish_is_measured_on_what_was_drafted():
    shop = bank(
        ("Load and sort it.", ["x"]),
        ("How much is it next Monday?", ["x"]),
        ("Where is it? Then where?", ["x"]),
        drafts=["Load it. Next sort it.", "How much is it next Monday? "],
    )
    found = measure_polish(make_requests(shop))
    assert (found.drafts, found.changed) == (2, 0.5)
    assert (found.before.n, found.before.sequence, found.before.commands) == (
        2,
        0.5,
        0.5,
    )
    assert found.after.sequence == pytest.approx(1 / 3)
    assert found.after.commands == pytest.approx(1 / 3)
    found = measure_polish(make_requests(bank(("a", ["x"]))))
    assert (found.drafts, found.changed, found.before) == (0, None, None)
    assert measure_polish(make_requests(bank())) is None


def test_near_duplicates_count_from_the_second_on():
    text = "how many of the boxes came back to us last month in all"
    texts = [text, f"{text}, please", "something else", text]
    found = measure_duplicates(texts, seed=0)
    assert (found.n, found.count, found.share) == (4, 2, 0.5)
    assert found == measure_duplicates(texts[::-1], seed=3)
    assert measure_duplicates([], seed=0) is None
