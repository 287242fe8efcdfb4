"""What this project is called on a package index, how it is installed, and what is in its way."""

import sys
from importlib import metadata
from pathlib import Path
from traceback import walk_tb

# The import name and the command are `toolbank`; on the index that is somebody else's.
DISTRIBUTION = "toolbank-retrieval"
# Whether the index has it: until then it is installed in a clone of it.
PUBLISHED = False
_THEIRS = "toolbank"


def install_command(extra: str) -> str:
    """The command that installs this project with an extra; until it is published, in a clone."""
    if PUBLISHED:
        return f"pip install '{DISTRIBUTION}[{extra}]'"
    # vLLM asks for other versions than all the rest.
    file = "constraints-vllm.txt" if extra == "vllm" else "constraints.txt"
    return f"pip install '.[{extra}]' -c {file}"


def advise_to_install(extra: str) -> str:
    """A sentence that says how to get what an extra brings."""
    where = "" if PUBLISHED else ", in a clone of this project"
    return f"Get it{where}: {install_command(extra)}"


def explain_namesake() -> str:
    """That another distribution of our import name is installed here too; "" if none is.

    One of the two has written over files of the other, and which one Python imports is chance.
    """
    try:
        version = metadata.version(_THEIRS)
    except metadata.PackageNotFoundError:
        return ""
    what, where = (DISTRIBUTION, "") if PUBLISHED else (".", ", in a clone of it")
    return (
        f"the distribution {_THEIRS} {version} is installed here too: another project (or an early "
        f"version of this one) with the same import name, and either has files of the other. Run "
        f"`pip uninstall {_THEIRS}`, then install this one anew{where}: pip install "
        f"--force-reinstall --no-deps {what}"
    )


def is_by_namesake(error: ImportError) -> bool:
    """Whether an import failed in a file of the other distribution, or for want of one beside it.

    What both have listed as theirs, such as the package's own `__init__`, proves nothing.
    """
    try:
        listed = metadata.distribution(_THEIRS).files or ()
    except metadata.PackageNotFoundError:
        return False
    package = Path(__file__).parents[1] / "__init__.py"
    theirs = {Path(file.locate()).resolve() for file in listed} - {package.resolve()}
    read = [frame.f_code.co_filename for frame, _ in walk_tb(error.__traceback__)]
    # The file of a name that it lacks, or of a package without the module.
    parent = sys.modules.get((error.name or "").rpartition(".")[0])
    wanted = [error.path, getattr(parent, "__file__", None), *read]
    return any(Path(file).resolve() in theirs for file in wanted if file)
