"""Requests written for the small shop."""

from tests.world import SHOP
from toolbank.llm.journal import Journal
from toolbank.requests.write.config import GenerateConfig
from toolbank.requests.write.write_step import generate


def write_shop(folder, tools=SHOP, **settings):
    """What `generate` makes with these settings; the journal is in the folder."""
    config = GenerateConfig(**{"model": "m", "queries": 20, **settings})
    folder.mkdir(exist_ok=True)
    with Journal(folder / "journal.sqlite") as journal:
        return generate(tools, config, domain="shop", seed=0, journal=journal)


def write_by(url, folder, **settings):
    """What a model at an endpoint writes."""
    defaults = {"engine": "openai", "concurrency": 8, "retries": 2}
    return write_shop(folder, base_url=url, **{**defaults, **settings})


def count_replies(folder):
    """The replies in the journal."""
    with Journal(folder / "journal.sqlite") as journal:
        return len(journal)
