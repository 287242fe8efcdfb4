from hypothesis import given
from hypothesis import strategies as st

from toolbank.system.terminal import wrap

LONG = "Every reply that came is kept; the same command goes on from there."


def test_long_lines_break_between_words_and_under_their_label():
    assert wrap(f"generate  {LONG}", 40, indent=10) == (
        "generate  Every reply that came is kept;\n"
        "          the same command goes on from\n"
        "          there."
    )


def test_a_command_stays_on_one_line():
    command = (
        "  toolbank run runs/mine --set generate.budget.calls=1000 --until generate"
    )
    assert wrap(f"{LONG}\n{command}", 30).splitlines()[-1] == command


@given(st.text(st.characters(categories=["L", "N", "Zs"]), max_size=300))
def test_no_word_is_lost(text):
    assert wrap(text, 30).split() == text.split()
