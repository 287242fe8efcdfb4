"""What the verifier is asked, once a request."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from toolbank.bank.bank import Bank
from toolbank.bank.records import Query
from toolbank.config.assets import Asset, find_asset
from toolbank.generate.brief import brief
from toolbank.llm.chat import ChatRequest, Message, VerifyTask, number_of
from toolbank.llm.templates import PromptTemplate
from toolbank.verify.candidates import Candidate

TEMPLATE = "verify.j2"


class VerifyPrompts:
    """The prompts of one run. `hash` names their file."""

    def __init__(self, bank: Bank, domain: str, seed: int) -> None:
        self.hash = find_asset("prompts", TEMPLATE).sha256
        self._bank = bank
        self._domain = domain
        self._seed = seed
        self._template = PromptTemplate(TEMPLATE)

    def ask(self, query: Query, candidates: Sequence[Candidate]) -> ChatRequest:
        """Ask for the grades of a request's candidates, shuffled, without its labels.

        Raises:
            InputError: the user's own template is broken.
        """
        names = [row.tool for row in candidates]
        Random(f"{self._seed}:verify:{query.id}").shuffle(names)
        tools = [self._bank.tools[self._bank.index[name]] for name in names]
        prompt = self._template.render(
            domain=self._domain,
            request=query.query,
            tools=[brief(tool) for tool in tools],
        )
        return ChatRequest(
            attempt=number_of(query.query),
            step="verify",
            messages=(Message("user", prompt),),
            schema=self._template.schema,
            task=VerifyTask(query.id, tuple(names)),
        )


def verify_assets() -> tuple[Asset, ...]:
    """The file that shapes the prompts."""
    return (find_asset("prompts", TEMPLATE),)
