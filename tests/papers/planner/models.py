"""A tiny causal language model with random weights, in a folder."""

from tests.papers.planner.data import TOOLS
from toolbank.papers.planner.config import NewModelSize
from toolbank.papers.planner.language_model import make_model
from toolbank.training.run import seed_weights


def tiny_llama(folder):
    seed_weights(0)
    size = NewModelSize(vocabulary=400, width=32, layers=2, heads=2)
    texts = [f"Call {tool.name} to {tool.summary}" for tool in TOOLS]
    make_model(size, texts, 256).save(folder)
    return folder
