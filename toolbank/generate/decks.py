"""Cards that are dealt from shuffled decks."""

from functools import lru_cache
from random import Random

_DECKS_AT_HAND = 4


class Decks:
    """Cards dealt: each comes equally often, none twice in one hand.

    Hand i holds the i-th T cards of endless shuffled decks; it depends on the seed and i only.
    Kept of each deck is what was left of the one before it, fewer than T cards.
    """

    def __init__(self, cards: int, size: int, seed: int) -> None:
        self._cards = cards
        self._size = size
        self._seed = seed
        self._left: list[tuple[int, ...]] = [()]
        self._hands = lru_cache(_DECKS_AT_HAND)(self._complete)

    def deal(self, hand: int) -> tuple[int, ...]:
        """The cards of a hand."""
        # The deck that holds the last card of the hand completes it.
        deck = ((hand + 1) * self._size - 1) // self._cards
        while len(self._left) <= deck:
            self._hands(len(self._left) - 1)
        return self._hands(deck)[hand - deck * self._cards // self._size]

    def _complete(self, deck: int) -> list[tuple[int, ...]]:
        """The hands that a deck completes."""
        size = self._size
        left = list(self._left[deck])
        fresh = list(range(self._cards))
        Random(f"{self._seed}:deck:{deck}").shuffle(fresh)
        # A hand that ends one deck and begins the next must not hold a card twice.
        held = set(left)
        fits = [card for card in fresh if card not in held][: size - len(left)]
        first = set(fits)
        cards = left + fits + [card for card in fresh if card not in first]
        hands = [
            tuple(cards[start : start + size])
            for start in range(0, len(cards) - size + 1, size)
        ]
        if len(self._left) == deck + 1:
            self._left.append(tuple(cards[len(hands) * size :]))
        return hands
