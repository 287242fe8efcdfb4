"""Every method with what it builds on, small: a tiny encoder, few epochs."""

import re

import numpy as np

from tests.tiny_models import tiny_encoder
from tests.world import make_bank
from toolbank.bank.bank import Bank
from toolbank.bank.records import Query
from toolbank.encoders.sentence import SentenceConfig
from toolbank.retrievers import RETRIEVERS, create_retriever
from toolbank.retrievers.base import FitContext
from toolbank.retrievers.llm_settings import DecompositionConfig, LlmConfig
from toolbank.retrievers.settings import (
    Bm25Config,
    DescriptionsConfig,
    FusionConfig,
    MlcConfig,
    NearestConfig,
    NnnConfig,
    ProtipConfig,
    RefinerConfig,
    Tool2VecConfig,
)
from toolbank.testing.retrievers import REQUESTS, RetrieverCase

NAMES = ("rain", "song", "light", "parcel", "mail", "road", "rose", "house")


def name_query(form, split, *places):
    """A query that names its tools, which are given by their places among `NAMES`."""
    tools = tuple(NAMES[place] for place in places)
    text = form.format(*tools)
    return Query(id=f"{split} {text}", query=text, tools=tools, split=split)


def named_bank(queries):
    bank = make_bank({name: f"the {name}" for name in NAMES})
    return Bank(bank.tools, tuple(queries))


def paired_bank():
    """Two tools in each query, but for a test with what no query said."""
    please, beside, zebra = "please {} and {} now", "{} and {} beside", "a zebra and {}"
    return named_bank(
        [
            *(name_query(please, "train", i, (i + 1) % 8) for i in range(8)),
            *(name_query(please, "train", i, (i + 2) % 8) for i in range(8)),
            *(name_query(beside, "validation", i, (i + 5) % 8) for i in range(6)),
            *(name_query(zebra, "test", i) for i in range(4)),
        ]
    )


def assert_same_hits(found, expected, atol=0.0):
    """Check that hits are the same, and scores within `atol`."""
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_allclose(found[1], expected[1], atol=atol, rtol=0)


TRAINED = (
    *("mlc", "mlc-frozen", "refiner", "refiner-on-nnn", "protip", "nnn"),
    *("decomposition", "fusion", "tuned-tool2vec", "tuned-descriptions"),
)
SHORT = {"epochs": 1, "batch_size": 2, "learning_rate": 1e-3, "warmup": 0}


def encoder_for(folder, bank, *texts, dropout=0.1, **settings):
    """A tiny encoder that knows each word of a bank and of some texts."""
    model = str(tiny_encoder(folder, dropout=dropout, words=words_of(bank, *texts)))
    return SentenceConfig(model=model, **settings)


def words_of(bank, *texts):
    read = [f"{tool.name} {tool.summary}" for tool in bank.tools]
    read += [query.query for query in (*bank.queries, *bank.train_queries)]
    return sorted(set(re.findall(r"\w+", " ".join([*read, *texts]).lower())))


def configure(encoder, **training):
    """A configuration of each method, trained or built on others, by its label."""
    frozen = {"encoder": encoder}
    trained = {"encoder": encoder, "training": SHORT | training}
    configs = (
        Bm25Config(),
        Tool2VecConfig(**frozen),
        DescriptionsConfig(**frozen),
        MlcConfig(**trained),
        MlcConfig(name="mlc-frozen", frozen=True, **trained),
        RefinerConfig(candidates=4, **trained),
        RefinerConfig(
            name="refiner-on-nnn", first_stage="nnn", candidates=4, **trained
        ),
        ProtipConfig(**trained),
        NnnConfig(),
        DecompositionConfig(),
        FusionConfig(beside=("bm25",)),
        Tool2VecConfig(name="tuned-tool2vec", **trained),
        DescriptionsConfig(name="tuned-descriptions", **trained),
    )
    return {config.label: config for config in configs}


def needed_by(config, configs):
    """The configurations of what a retriever needs, each after those that it needs itself."""
    needed = [configs[label] for label in config.needs]
    return tuple(c for one in needed for c in (*needed_by(one, configs), one))


def fit(label, configs, bank, **context):
    config = configs[label]
    stages = [fit(other, configs, bank) for other in config.needs]
    return fit_one(config, bank, *stages, **context)


def fit_one(config, bank, *stages, **context):
    retriever = create_retriever(config)
    fitted = {stage.name: stage for stage in stages}
    retriever.fit(bank, FitContext(fitted=fitted, **context))
    return retriever


CONFIGS = {
    config.label: config
    for config in (
        Bm25Config(),
        Bm25Config(name="bm25-requests", requests=True),
        DescriptionsConfig(),
        NearestConfig(),
        NearestConfig(name="nearest-bm25", by="bm25"),
        Tool2VecConfig(),
    )
}
LABELS = [*CONFIGS, *TRAINED, "llm"]


def make_cases(bank, folder, server):
    """Every method on a bank; the trained ones have a tiny encoder, and `server` is the model."""
    bell = "Ring the bell of a house."
    small = configure(encoder_for(folder / "tiny", bank, bell, *REQUESTS))
    llm = LlmConfig(base_url=server.url, model="m", replies=folder / "replies.sqlite")
    configs = {**{label: small[label] for label in TRAINED}, **CONFIGS, "llm": llm}
    return {
        label: RetrieverCase(
            RETRIEVERS.load(config.type), config, bank, needed_by(config, small)
        )
        for label, config in configs.items()
    }
