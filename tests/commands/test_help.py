"""What the commands say of themselves."""

import re

from tests.commands.in_process import toolbank
from toolbank.system.version import __version__


def command_names(cwd):
    helped = toolbank("--help", cwd=cwd).stdout
    names = [
        line.split()[0]
        for line in helped.partition("Commands:")[2].splitlines()
        if line.startswith("  ") and not line.startswith("   ") and line.strip()
    ]
    names.remove("Example:")
    return names


def test_every_command_has_a_page_with_an_example(tmp_path):
    names = command_names(tmp_path)
    assert len(names) == 30
    pages = {name: toolbank(name, "-h", cwd=tmp_path).stdout for name in names}
    for name, page in pages.items():
        assert f"Example: toolbank {name}" in page
    # Nobody needs to know Python to read them, and no sentence is cut.
    for page in (*pages.values(), toolbank("--help", cwd=tmp_path).stdout):
        assert "..." not in page.replace("[ARGS]...", "")
        told = page.partition("Example:")[0].replace(">=1", "")
        assert not re.search(r"[{}<>]|list\[", told), page
    assert "toolbank run [OPTIONS] RECIPE" in pages["run"]
    assert "--out DIR" in pages["run"]
    assert "[OPTIONS] RUN [QUERY]" in pages["search"]


def test_the_version_is_told(tmp_path):
    done = toolbank("--version", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, f"toolbank {__version__}\n")


def test_the_recipes_are_listed_with_what_they_are(tmp_path):
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "mine.yaml").write_text("# My own tools.\nname: mine\n")
    told = toolbank("recipes", cwd=tmp_path).stdout
    assert re.search("^quickstart  +NumPy from end to end", told, re.MULTILINE)
    assert re.search("^mine  +My own tools$", told, re.MULTILINE)
    names = [line.split()[0] for line in told.splitlines()]
    assert names == sorted(names)
    for name in set(names) - {"mine"}:
        assert f"{name}.yaml" in toolbank("run", "x", cwd=tmp_path).stderr
