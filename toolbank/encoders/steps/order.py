"""Perturbations of which steps a chain has, and in which order."""

from __future__ import annotations

from random import Random

Steps = tuple[str, ...]


def remove(steps: Steps, random: Random, others: Steps) -> Steps | None:  # noqa: ARG001
    """Without one of its steps; None where nothing would be left."""
    if len(steps) < 2:
        return None
    place = random.randrange(len(steps))
    return steps[:place] + steps[place + 1 :]


def duplicate(steps: Steps, random: Random, others: Steps) -> Steps | None:  # noqa: ARG001
    """With one of its steps twice in a row."""
    if not steps:
        return None
    place = random.randrange(len(steps))
    return steps[: place + 1] + steps[place:]


def swap(steps: Steps, random: Random, others: Steps) -> Steps | None:  # noqa: ARG001
    """With two different steps in each other's place; None where all are the same."""
    pairs = [
        (i, j)
        for j in range(len(steps))
        for i in range(j)
        if steps[i].strip() != steps[j].strip()
    ]
    if not pairs:
        return None
    i, j = random.choice(pairs)
    changed = list(steps)
    changed[i], changed[j] = steps[j], steps[i]
    return tuple(changed)


def shuffle(steps: Steps, random: Random, others: Steps) -> Steps | None:  # noqa: ARG001
    """In another order; None where all steps are the same."""
    return shuffle_until_other(steps, random)


def hallucinate(steps: Steps, random: Random, others: Steps) -> Steps | None:
    """With a step of `others`, those of another chain, somewhere in it.

    None where each of those is in the chain already.
    """
    foreign = [step for step in others if step not in steps]
    if not (steps and foreign):
        return None
    place = random.randrange(len(steps) + 1)
    return (*steps[:place], random.choice(foreign), *steps[place:])


def shuffle_until_other(items: Steps, random: Random) -> Steps | None:
    """The items in an order that reads otherwise; None where all are the same."""
    if len({item.strip() for item in items}) < 2:
        return None
    order = list(items)
    while [item.strip() for item in order] == [item.strip() for item in items]:
        random.shuffle(order)
    return tuple(order)
