"""A virtual environment for each peer, with the versions that the figures are of."""

import subprocess
import sys
import venv
from pathlib import Path

# The newest that pip found on 2026-11-21; what they need in turn is in installed.txt beside them.
REQUIREMENTS = {
    "pool": ("openai[aiohttp]==3.54.0", "aiohttp==3.14.5"),
    "curator": ("bespokelabs-curator==0.1.31", "litellm==1.83.7", "aiohttp==3.13.5"),
    # It imports requests, and doesn't say so.
    "distilabel": ("distilabel[openai]==1.5.3", "openai==3.54.0", "requests"),
    "datadesigner": ("data-designer==0.9.6", "httpx==0.28.1"),
}
# No GPU is needed: this one installs nothing for one.
_CONSTRAINTS = "torch==2.13.0\n"


def make_environment(name: str, folder: Path) -> Path:
    """The Python of a peer's environment, which is made where it is missing."""
    environment = folder / "venvs" / name
    python = environment / "bin" / "python"
    ready = environment / "installed.txt"
    if not ready.exists():
        print(f"{name}: installing into {environment}", file=sys.stderr)
        venv.create(environment, with_pip=True, clear=True)
        constraints = folder / "constraints.txt"
        constraints.write_text(_CONSTRAINTS)
        pip = [python, "-m", "pip", "--disable-pip-version-check"]
        command = [*pip, "install", "-q", "-c", constraints, *REQUIREMENTS[name]]
        subprocess.run(command, check=True)
        frozen = subprocess.run([*pip, "freeze"], check=True, capture_output=True)
        ready.write_bytes(frozen.stdout)
    return python
