"""A command on a terminal, which is answered once it asks."""

import os
import pty
import subprocess
import sys


def answer_on_terminal(arguments, answer, **options):
    """Run toolbank on a terminal; its exit code, and what it shows there as one line.

    Something is typed before the question, too: that must be no answer.
    """
    theirs, ours = pty.openpty()
    os.write(theirs, b"y\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "toolbank", *map(str, arguments)],
        stdin=ours,
        stderr=ours,
        stdout=subprocess.DEVNULL,
        **options,
    )
    os.close(ours)
    shown, is_answered = b"", False
    try:
        while piece := os.read(theirs, 4096):
            shown += piece
            if b"[y/N]" in shown and not is_answered:
                os.write(theirs, answer.encode())
                is_answered = True
    except OSError:
        pass  # the end of a terminal
    os.close(theirs)
    return process.wait(120), " ".join(shown.decode().split())
