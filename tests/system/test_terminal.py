import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbank.system.outputs import config_folder
from toolbank.system.terminal import wrap

LONG = "Every reply that came is kept; the same command goes on from there."


def test_lines_break_between_words_and_under_their_label_but_no_command():
    command = "  toolbank run runs/mine --set generate.budget.calls=1000 --until asks"
    assert wrap(f"generate  {LONG}\n{command}", 40, indent=10) == (
        "generate  Every reply that came is kept;\n"
        "          the same command goes on from\n"
        f"          there.\n{command}"
    )


@pytest.mark.skipif(sys.platform == "win32", reason="no such terminals there")
def test_a_terminal_that_tells_no_width_is_taken_as_one_of_80_columns():
    screen, terminal = os.openpty()
    assert os.get_terminal_size(terminal).columns == 0
    code = "from toolbank.system.terminal import print_message as p; p('word ' * 40)"
    subprocess.run([sys.executable, "-c", code], stderr=terminal, check=True)
    os.close(terminal)
    first, *_ = os.read(screen, 10_000).decode().split("\r\n")
    os.close(screen)
    assert 60 < first.count("word") * len("word ") <= 80


@given(st.text(st.characters(categories=["L", "N", "Zs"]), max_size=300))
def test_no_word_is_lost(text):
    assert wrap(text, 30).split() == text.split()


@pytest.mark.skipif(sys.platform != "linux", reason="XDG is the rule of Linux")
def test_the_folder_of_settings_is_the_users(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    assert config_folder() == tmp_path / "settings" / "toolbank"
    assert not list(tmp_path.iterdir())
