"""A small world of plans: tools, and requests whose steps name them in order."""

from random import Random

from tests.world import write_dataset
from toolbank.bank.bank import Bank
from toolbank.bank.records import Query, Tool
from toolbank.papers.planner.config import NewModelSize
from toolbank.papers.planner.language_model import make_model
from toolbank.training.run import seed_weights

VERBS = ("find", "book", "cancel", "print", "mail")
NOUNS = ("room", "flight", "table", "taxi")
TOOLS = tuple(
    Tool(name=f"{verb}_{noun}", summary=f"{verb.title()} a {noun}.")
    for verb in VERBS
    for noun in NOUNS
)


def tiny_llama(folder):
    seed_weights(0)
    size = NewModelSize(vocabulary=400, width=32, layers=2, heads=2)
    texts = [f"Call {tool.name} to {tool.summary}" for tool in TOOLS]
    make_model(size, texts, 256).save(folder)
    return folder


def steps_of(tools, place):
    return [f"Step {n} Call {name} for {place}" for n, name in enumerate(tools, 1)]


def make_rows(count, seed=0):
    """Requests for two or three tools each, every fourth of them to test with."""
    random, rows = Random(seed), []
    for number in range(count):
        tools = [tool.name for tool in random.sample(TOOLS, random.choice((2, 3)))]
        place = f"{random.choice(('Rome', 'Oslo', 'Lima', 'Cork'))} {number}"
        text = f"{' and then '.join(t.replace('_', ' ') for t in tools)} in {place}."
        rows.append(
            {
                "id": str(number),
                "query": text,
                "tools": tools,
                "steps": steps_of(tools, place),
                "split": "test" if number % 4 == 3 else "train",
            }
        )
    return rows


def write_data(folder, rows):
    tools = [{"name": tool.name, "description": tool.summary} for tool in TOOLS]
    write_dataset(folder / "data", tools, rows)


def make_bank(rows):
    queries = (
        Query(
            id=row["id"],
            query=row["query"],
            tools=row["tools"],
            split=row["split"],
            explanation="\n".join(row["steps"]),
        )
        for row in rows
    )
    return Bank(TOOLS, tuple(queries))
