"""Many threads on one finder of a finished run: add, remove and search, and lose nothing.

    python benchmarks/shared_finder.py RUN --threads 20 --seconds 60

Prints a line a retriever: searches, additions and removals a minute, errors, and tools that were
lost: added and not found, or removed and found all the same.
"""

import argparse
import time
from collections import Counter
from pathlib import Path
from random import Random
from threading import Thread

import toolbank
from toolbank.bank.records import Tool

REQUESTS = (
    "the middle value of a list of numbers",
    "sort the rows, then write them to a file",
    "where are the two of them different?",
)
# Every tool shares it with a request, so that BM25 finds all of them.
WORD = "thing"


class Sharer(Thread):
    """Adds tools, searches for them, and removes them again, while `goes_on(steps done)`."""

    def __init__(self, finder, number, goes_on):
        super().__init__()
        self.finder, self.number, self.goes_on = finder, number, goes_on
        self.own, self.gone, self.made = set(), set(), 0
        self.counts, self.errors = Counter(), []

    def run(self):
        random = Random(self.number)
        done = 0
        while self.goes_on(done):
            done += 1
            try:
                self.step(random)
            except Exception as error:
                self.errors.append(repr(error))

    def step(self, random):
        chance = random.random()
        if chance < 0.1:
            new = [self.make() for _ in range(random.randint(1, 3))]
            self.finder.add_tools(new)
            self.own |= {tool.name for tool in new}
            self.counts["added"] += len(new)
        elif chance < 0.2 and self.own:
            names = random.sample(sorted(self.own), min(2, len(self.own)))
            self.finder.remove_tools(names)
            self.own -= set(names)
            self.gone |= set(names)
            self.counts["removed"] += len(names)
        else:
            request = f"{random.choice(REQUESTS)} {WORD} {random.random()}"
            hits = self.finder.search(request, k=10**6)
            found = [hit.tool.name for hit in hits]
            lost = self.own - set(found) | self.gone & set(found)
            self.counts["lost"] += len(lost) + len(found) - len(set(found))
            self.counts["searches"] += 1

    def make(self):
        self.made += 1
        return Tool(
            name=f"added.by{self.number}.nr{self.made}",
            summary=f"Do {WORD} number {self.made} of worker {self.number}.",
        )


def share(finder, threads, goes_on):
    """Counts of what was done, with errors and tools that were lost in the end."""
    before = [tool.name for tool in finder.tools]
    workers = [Sharer(finder, number, goes_on) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    counts = sum((worker.counts for worker in workers), Counter())
    left = set(before).union(*(worker.own for worker in workers))
    names = [tool.name for tool in finder.tools]
    counts["lost"] += len(left ^ set(names)) + len(names) - len(set(names))
    counts["lost"] += list(finder.retriever.tools) != names
    errors = [error for worker in workers for error in worker.errors]
    return counts, errors


def until(seconds):
    """Whether so many seconds from now are not over yet."""
    end = time.monotonic() + seconds
    return lambda _: time.monotonic() < end


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--retrievers", nargs="+")
    parser.add_argument("--threads", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=60)
    given = parser.parse_args()
    models = sorted(path.name for path in (given.run / "models").iterdir())
    for name in given.retrievers or models:
        finder = toolbank.load(given.run, name)
        counts, errors = share(finder, given.threads, until(given.seconds))
        done = ", ".join(
            f"{counts[what]:,} {what}" for what in ("searches", "added", "removed")
        )
        print(f"{name}: {done}; {len(errors)} errors, {counts['lost']} lost")
        for error, times in Counter(errors).most_common(3):
            print(f"  {times} times {error}")


if __name__ == "__main__":
    main()
