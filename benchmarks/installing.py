"""What does each extra install: packages, megabytes, and the time until the program is imported?

    python benchmarks/installing.py [EXTRA]... [--folder DIR]

Without an extra: the core, serve, mcp, crawl, generate, train, pack and all. Each is installed from this
checkout into a new virtual environment, with constraints.txt, and removed afterwards. pip and
setuptools are not counted. Megabytes are those of the files without byte code. The import is that
of the command line (`toolbank.commands.app`) and of what searches a packed finder
(`toolbank.search.finder`, with onnxruntime and tokenizers where they are installed): CPU seconds of
a fresh process, the best of five, byte code compiled before.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXTRAS = ("", "serve", "serve,mcp", "crawl", "generate", "train", "pack", "all")
TOLD = ("torch", "transformers", "scipy", "scrapy", "datasets", "pandas", "fastapi")
IMPORT = """
import sys, time
begun = time.process_time()
for name in sys.argv[1:]:
    __import__(name)
print(time.process_time() - begun)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("extras", nargs="*", default=EXTRAS)
    parser.add_argument("--folder", type=Path)
    args = parser.parse_args()
    print("| extra | packages | MB | command line, s | search, s | among them |")
    print("|---|---:|---:|---:|---:|---|")
    for extra in args.extras:
        with tempfile.TemporaryDirectory(dir=args.folder) as folder:
            print(f"| {extra or '(none)'} | {measure(Path(folder), extra)} |")


def measure(folder: Path, extra: str) -> str:
    """The cells of an extra's row, installed into a folder."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    before = size_of(folder)
    what = f"{ROOT}[{extra}]" if extra else str(ROOT)
    pip = [python, "-m", "pip", "--disable-pip-version-check"]
    options = ["--quiet", "--no-compile", "-c", ROOT / "constraints.txt"]
    subprocess.run([*pip, "install", *options, what], check=True)
    megabytes = (size_of(folder) - before) / 1e6
    listed = subprocess.run(
        [*pip, "list", "--format", "json"], check=True, capture_output=True
    )
    names = {one["name"] for one in json.loads(listed.stdout)} - {"pip", "setuptools"}
    # Packages hold files that are no Python, such as templates.
    subprocess.run([python, "-m", "compileall", "-qq", folder], check=False)
    searching = ["toolbank.search.finder"]
    if "serve" in extra or extra == "all":
        searching += ["onnxruntime", "tokenizers"]
    times = [
        import_time(python, modules)
        for modules in (["toolbank.commands.app"], searching)
    ]
    heavy = ", ".join(name for name in TOLD if name in names) or "none of the heavy"
    return (
        f"{len(names)} | {megabytes:,.0f} | {times[0]:.2f} | {times[1]:.2f} | {heavy}"
    )


def size_of(folder: Path) -> int:
    return sum(
        path.stat().st_size
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink() and path.suffix != ".pyc"
    )


def import_time(python: Path, modules: list[str]) -> float:
    command = [python, "-P", "-c", IMPORT, *modules]
    return min(
        float(subprocess.run(command, check=True, capture_output=True).stdout)
        for _ in range(5)
    )


if __name__ == "__main__":
    sys.exit(main())
