"""Finished runs that the tests of all workers share."""

import os

from filelock import FileLock


def share_folder(tmp_path_factory, name, make):
    """The folder that `make` fills, once for all workers; copy it before you change it."""
    root = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent
    folder, done = root / name, root / f"{name}.done"
    with FileLock(root / f"{name}.lock"):
        if not done.exists():
            folder.mkdir()
            make(folder)
            done.touch()
    return folder
