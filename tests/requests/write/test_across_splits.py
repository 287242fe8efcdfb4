"""Near-duplicates across splits."""

from toolbank.bank.records import Query
from toolbank.requests.write.near_duplicates import find_across_splits

LONG = (
    "Sort the readings of the old weather station by the hour and then draw the mean of each "
    "week as a line, with the highest day marked in red"
)


def make(number, text, split):
    return Query(id=str(number), query=text, tools=("a",), split=split)


def test_what_a_held_out_request_says_is_found_in_train_and_not_the_other_way():
    other = "Translate the letter of my grandmother from Danish, and read it out to me"
    queries = [
        make(0, f"{LONG}, please", "train"),
        make(1, other, "train"),
        make(2, LONG, "test"),
        make(3, f"{LONG} ink", "validation"),
        make(4, f"{other} tonight", "train"),
        make(5, LONG, None),
    ]
    # Two of train that are alike are left: neither is held out.
    assert find_across_splits(queries) == {0, 3}
