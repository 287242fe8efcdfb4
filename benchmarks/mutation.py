"""How many small faults in the code do the tests notice, before and after a change of its shape?

    python benchmarks/mutation.py CHECKOUT [--area AREA ...] [--sample 100] [--seed 0] [--before OLD]
                                  [--jobs 2] [--seconds 10] [--work /tmp/mutants]

A mutant is CHECKOUT with one small fault in one function: a comparison moved, a call dropped, a bound of a
slice removed (`_variants` in mutants.py has the list). A mutant is killed when a test fails on it, and survives when none
does. The score of an area is the share of killed mutants in a seeded sample. Prints the score of each
area and every mutant that survives; with --before, also those that only the tests of OLD kill.

With --before OLD, both checkouts are measured on the same faults:

- The functions of an area are those in the packages of OLD (`AREAS`), wherever they are in CHECKOUT. A
  function is found there by (class.)name; of several, the one with the most similar body. If the class
  has another name, the name of the method and a similar body are enough.
- A function is compared as its syntax tree, without comments and docstrings. If the tree is the same in both,
  both get the same mutants. If it is not, a mutant of OLD has as its counterpart the mutation by the same
  operator in the most similar statement of the new function.
- A mutant without a counterpart is in neither sample; the next one in the seeded order replaces it.

How a mutant is tested:

1. Once for each checkout, all tests run on a copy in which each function notes that it was entered. This
   gives the tests that enter a function, in processes that a test starts, too, and the seconds of each
   test. Only tests that pass here are used.
2. A mutant is written into a copy of the checkout with its own virtual environment, so that every process
   that a test starts sees it. The tests that enter the function run there until one fails: those that
   enter the fewest functions first, and no more than take --seconds. They run in a fork of a
   process that has loaded the large libraries. Hypothesis draws from a fixed seed.
3. A mutant on which the tests take over four times as long as without it, plus 30 s, is killed by
   timeout. These are counted apart.
4. In the end, the tests that killed mutants run once more without a mutant. If one fails, it is
   not used, and the mutants it killed are tested again.

CHECKOUT and OLD must each have a `.venv` with the extras `all` and `dev`. WORK keeps the test map and the
results of each checkout (CHECKOUT-map.json, CHECKOUT-AREA.json), named by its folder; the same command goes on
after a stop, and a change of the checkout discards both.
"""

import argparse
import ast
import hashlib
import json
import queue
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mutants import AREAS, Function, Mutant, draw, has_docstring, read_functions
from mutation_copy import Copy

_MOST_TESTS = 150
_FIRST_TESTS = 15
_LEAST_LIMIT = 30
# By the exit code of pytest: all pass; none was collected. Without one, it did not end in time.
_OUTCOMES = {0: "survives", 5: "no tests", None: "timeout"}
_KILLED = ("killed", "timeout")
# The number of functions that it enters, its seconds, its file, its name.
_Test = tuple[int, float, str, str]


def share(copies: list[Copy], work: list[Any], do: Callable[[Copy, Any], None]) -> None:
    """Do all work, each piece in the first copy that is free."""
    left: queue.SimpleQueue[Any] = queue.SimpleQueue()
    for piece in work:
        left.put(piece)
    failures: list[BaseException] = []

    def take(one: Copy) -> None:
        while not failures:
            try:
                do(one, left.get_nowait())
            except queue.Empty:
                return
            except BaseException as error:
                failures.append(error)
                raise

    threads = [threading.Thread(target=take, args=(one,)) for one in copies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


class Measurement:
    """The test map of a checkout, and the results of its mutants."""

    def __init__(self, checkout: Path, work: Path, jobs: int, seconds: float) -> None:
        self._checkout = checkout
        self._name = checkout.name
        self._work = work
        self._jobs = jobs
        self._seconds = seconds
        self._copies: list[Copy] = []
        self._lock = threading.Lock()
        self._state = _hash_files(checkout)
        self._map: dict[str, Any] = {}
        self._places: list[str] = []

    def __enter__(self) -> "Measurement":
        return self

    def __exit__(self, *_: object) -> None:
        for one in self._copies:
            one.close()

    def _get_copies(self) -> list[Copy]:
        if not self._copies:
            folder = self._work / "copies"
            for number in range(self._jobs):
                own = folder / f"{self._name}-{number}"
                self._copies.append(Copy(self._checkout, own))
        return self._copies

    def _load(self, name: str) -> dict[str, Any]:
        file = self._work / f"{self._name}-{name}.json"
        if file.exists():
            stored = json.loads(file.read_text())
            if stored.pop("state") == self._state:
                return dict(stored)
        return {}

    def _save(self, name: str, content: dict[str, Any]) -> None:
        file = self._work / f"{self._name}-{name}.json"
        part = file.with_suffix(".part")
        part.write_text(json.dumps({"state": self._state, **content}, indent=0))
        part.replace(file)

    def map_tests(self) -> None:
        """Run all tests, file by file, and note which functions each enters."""
        if self._map:
            return
        self._map = self._load("map")
        functions = read_functions(self._checkout)
        self._places = [_locate(function) for function in functions]
        files = [
            str(f.relative_to(self._checkout))
            for f in self._checkout.glob("tests/**/test_*.py")
        ]
        done: dict[str, Any] = self._map.setdefault("files", {})
        left = sorted(set(files) - set(done))
        if not left:
            return
        copies = self._get_copies()
        sources = _instrument(functions)
        for one in copies:
            for path, text in sources.items():
                one.write(path, text)
        start = time.monotonic()

        def run(one: Copy, file: str) -> None:
            answer = one.run({file: []}, limit=900, go_on=True)
            names = answer.get("names", [""])
            entered: dict[str, list[int]] = defaultdict(list)
            log = one.folder / "entered"
            for line in log.read_text().split("\n")[:-1] if log.exists() else []:
                test, number = map(int, line.split())
                if test < len(names):
                    entered[names[test]].append(number)
            passed = set(answer.get("passed", [])) - set(answer.get("failed", []))
            seconds = answer.get("took", {})
            passed &= seconds.keys()
            took = {name: round(seconds[name], 3) for name in sorted(passed)}
            failed = answer.get("failed", [file])
            with self._lock:
                done[file] = {"took": took, "failed": failed, "entered": entered}
                self._save("map", self._map)
                print(
                    f"{self._name}, map: {len(done)} of {len(files)} files, "
                    f"{time.monotonic() - start:.0f} s: {file}: "
                    f"{len(took)} tests pass, {len(failed)} fail",
                    flush=True,
                )

        share(copies, left, run)
        for one in copies:
            for path in sources:
                one.write(path)

    def _find_tests(self, unreliable: set[str]) -> dict[str, list[_Test]]:
        """Return the tests that enter each function, the most specific first."""
        found: dict[str, list[_Test]] = defaultdict(list)
        for file, content in self._map["files"].items():
            by_import = set(content["entered"].get(file, ()))
            for test in content["took"].keys() - unreliable:
                entered = set(content["entered"].get(test, ()))
                for number in entered | by_import:
                    # That the import of its file enters a function makes no test specific.
                    size = len(entered) + 10_000 * (number not in entered)
                    seconds = content["took"][test]
                    found[self._places[number]].append((size, seconds, file, test))
        return {name: sorted(tests) for name, tests in found.items()}

    def measure(self, area: str, mutants: list[Mutant]) -> dict[str, Any]:
        """Test the mutants of an area that have no result yet; return all results."""
        self.map_tests()
        stored = self._load(area)
        if stored.get("limit") != self._seconds:
            stored = {"limit": self._seconds, "unreliable": [], "mutants": {}}
        results = stored["mutants"]

        def is_tested(mutant: Mutant) -> bool:
            return bool(results.get(mutant.id, {}).get("mutant") == mutant.describe())

        def is_done(mutant: Mutant) -> bool:
            return is_tested(mutant) and "checked" in results[mutant.id]

        while left := [mutant for mutant in mutants if not is_done(mutant)]:
            self._test_all(area, [m for m in left if not is_tested(m)], stored)
            failing = self._check_killers([results[mutant.id] for mutant in left])
            if failing:
                print(f"{self._name}, {area}: these fail without a mutant: {failing}")
            stored["unreliable"] += sorted(failing)
            for mutant in left:
                if results[mutant.id]["by"] in failing:
                    del results[mutant.id]
                else:
                    results[mutant.id]["checked"] = True
            self._save(area, stored)
        return {mutant.id: results[mutant.id] for mutant in mutants}

    def _test_all(
        self, area: str, mutants: list[Mutant], stored: dict[str, Any]
    ) -> None:
        tests = self._find_tests(set(stored["unreliable"]))
        for one in self._get_copies():
            one.compile()
        start = time.monotonic()
        done = 0

        def run(one: Copy, mutant: Mutant) -> None:
            nonlocal done
            result = self._test(one, mutant, tests)
            with self._lock:
                stored["mutants"][mutant.id] = result
                self._save(area, stored)
                done += 1
                print(
                    f"{self._name}, {area}, {done} of {len(mutants)}, "
                    f"{time.monotonic() - start:.0f} s: {result['outcome']}: "
                    f"{mutant.describe()}",
                    flush=True,
                )

        share(self._get_copies(), mutants, run)

    def _test(
        self, one: Copy, mutant: Mutant, tests: dict[str, list[_Test]]
    ) -> dict[str, Any]:
        function = mutant.function
        entering = tests.get(_locate(function), [])
        chosen = _choose(entering, self._seconds)
        outcome, by, seconds = "survives", "", 0.0
        if chosen:
            one.write(function.path, mutant.site.write(function.module))
        # Most mutants die at once: only the others need the files of all tests loaded.
        for part in (chosen[:_FIRST_TESTS], chosen[_FIRST_TESTS:]):
            if part and outcome == "survives":
                limit = _LEAST_LIMIT + 4 * sum(test[1] for test in part)
                answer = one.run(_group(part), limit)
                outcome = _OUTCOMES.get(answer["code"], "killed")
                if failed := answer.get("failed"):
                    outcome, by = "killed", failed[0]
                seconds += answer["seconds"]
        one.write(function.path)
        return {
            "mutant": mutant.describe(),
            "outcome": outcome,
            "by": by,
            "tests": len(chosen),
            "of": len(entering),
            "seconds": round(seconds, 2),
        }

    def _check_killers(self, results: list[dict[str, Any]]) -> set[str]:
        """Return the tests among those that killed mutants that fail without a mutant."""
        by_file: dict[str, set[str]] = defaultdict(set)
        for result in results:
            if result["outcome"] == "killed" and "::" in result["by"]:
                by_file[result["by"].partition("::")[0]].add(result["by"])
        failing: set[str] = set()

        def run(one: Copy, file: str) -> None:
            answer = one.run({file: sorted(by_file[file])}, limit=300, go_on=True)
            failing.update(by_file[file] - set(answer.get("passed", ())))
            failing.update(by_file[file] & set(answer.get("failed", ())))

        if by_file:
            share(self._get_copies(), sorted(by_file), run)
        return failing


def _locate(function: Function) -> str:
    return f"{function.path} {function.name} {function.node.lineno}"


def _choose(tests: list[_Test], most_seconds: float) -> list[_Test]:
    """Return the first tests that fit in the time."""
    chosen: list[_Test] = []
    expected = 0.0
    for test in tests[:_MOST_TESTS]:
        if not chosen or expected + test[1] <= most_seconds:
            chosen.append(test)
            expected += test[1]
    return chosen


def _group(tests: list[_Test]) -> dict[str, list[str]]:
    by_file: dict[str, list[str]] = defaultdict(list)
    for _, _, file, name in tests:
        by_file[file].append(name)
    return by_file


def _hash_files(checkout: Path) -> str:
    digest = hashlib.sha256()
    for folder in ("toolbank", "tests", "recipes", "prompts", "pyproject.toml"):
        top = checkout / folder
        for file in sorted([*top.rglob("*"), top]):
            if file.is_file() and "__pycache__" not in file.parts:
                digest.update(f"{file.relative_to(checkout)}\n".encode())
                digest.update(file.read_bytes())
    return digest.hexdigest()


def _instrument(functions: list[Function]) -> dict[str, str]:
    """Return {path: source} in which each function notes that it was entered."""
    modules = {}
    for number, function in enumerate(functions):
        call = ast.Call(ast.Name("__entered__", ast.Load()), [ast.Constant(number)], [])
        start = int(has_docstring(function.node))
        function.node.body.insert(start, ast.Expr(call))
        modules[function.path] = function.module
    return {
        path: ast.unparse(ast.fix_missing_locations(module))
        for path, module in modules.items()
    }


def summarise(results: dict[str, Any]) -> str:
    """Return the score in one line."""
    outcomes = Counter(result["outcome"] for result in results.values())
    killed = sum(outcomes[name] for name in _KILLED)
    unseen = sum(not result["of"] for result in results.values())
    cut = sum(
        result["outcome"] not in _KILLED and result["tests"] < result["of"]
        for result in results.values()
    )
    return (
        f"{killed} of {len(results)} killed ({outcomes['timeout']} by timeout), "
        f"{len(results) - killed} survive: {unseen} are in functions that no test enters, "
        f"{cut} were not shown to all tests that enter them"
    )


def main() -> None:
    """Draw the samples, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--area", choices=AREAS, action="append")
    parser.add_argument("--sample", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--before", type=Path)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--work", type=Path, default=Path("/tmp/mutants"))
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    checkouts = [given.checkout.resolve()]
    if given.before:
        checkouts.insert(0, given.before.resolve())
        if checkouts[0].name == checkouts[1].name:
            parser.error("CHECKOUT and OLD need folders of different names")
    areas = given.area or list(AREAS)
    before = read_functions(checkouts[0])
    after = read_functions(checkouts[-1]) if given.before else None
    samples = {
        area: draw(before, after, area, given.sample, given.seed) for area in areas
    }
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for position, checkout in enumerate(checkouts):
        arguments = (checkout, given.work.resolve(), given.jobs, given.seconds)
        with Measurement(*arguments) as measurement:
            for area in areas:
                mutants = [pair[position] for pair in samples[area]]
                found[area].append(measurement.measure(area, mutants))
    for area, measured in found.items():
        for checkout, results in zip(checkouts, measured, strict=True):
            print(f"\n{checkout}, {area}: {summarise(results)}")
            print(*_list_survivors(results), sep="\n")
        print(*_list_losses(measured[0], measured[-1]), sep="\n")


def _list_survivors(results: dict[str, Any]) -> Iterator[str]:
    for result in results.values():
        if result["outcome"] not in _KILLED:
            yield f"  {result['mutant']} ({result['tests']} of {result['of']} tests)"


def _list_losses(before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    for mutant, old in before.items():
        new = after[mutant]
        if old["outcome"] in _KILLED and new["outcome"] not in _KILLED:
            yield f"  only before: {new['mutant']}: {old['outcome']} by {old['by']}"


if __name__ == "__main__":
    main()
