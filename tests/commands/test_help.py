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


def test_every_command_shows_an_example(tmp_path):
    names = command_names(tmp_path)
    assert len(names) == 25
    for name in names:
        assert (
            f"Example: toolbank {name}" in toolbank(name, "--help", cwd=tmp_path).stdout
        )


def test_help_is_read_without_knowing_python_and_cuts_no_sentence(tmp_path):
    pages = [toolbank("-h", cwd=tmp_path).stdout]
    pages += [
        toolbank(name, "-h", cwd=tmp_path).stdout for name in command_names(tmp_path)
    ]
    for page in pages:
        assert "..." not in page.replace("[ARGS]...", "")
        told = page.partition("Example:")[0].replace(">=1", "")
        assert not re.search(r"[{}<>]|list\[", told), page
    run = toolbank("run", "--help", cwd=tmp_path).stdout
    assert "toolbank run [OPTIONS] RECIPE" in run
    assert "--out DIR" in run
    assert "[OPTIONS] RUN [QUERY]" in toolbank("search", "-h", cwd=tmp_path).stdout


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
