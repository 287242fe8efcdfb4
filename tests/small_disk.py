"""A disk that is soon full."""

import subprocess
from contextlib import contextmanager

import pytest


@contextmanager
def small_disk(folder, size):
    """Mount a disk of so many kB there, if that is permitted; gives what makes it large."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", folder]
    try:
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no command to mount a small disk")
    if done.returncode:
        pytest.skip(f"a small disk may not be mounted here: {done.stderr.strip()}")
    try:
        larger = ["mount", "-o", "remount,size=64m", folder]
        yield lambda: subprocess.run(larger, check=True)
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)
