"""What the commands say of bad input."""

from tests.commands.in_process import toolbank


def bad(recipe, *arguments, code, told, **environment):
    done = toolbank(*arguments, cwd=recipe, **environment)
    assert done.returncode == code, (done.returncode, done.stderr)
    for part in told:
        assert part in done.stderr, done.stderr
    assert done.stderr.count("\n") <= 12
