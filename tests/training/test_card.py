import yaml

from tests.corpus_files import CORPUS, check_expected
from toolbank.encoders.sentence import SentenceConfig
from toolbank.retrievers.settings import MlcConfig
from toolbank.system.version import __version__
from toolbank.training.card import make_card
from toolbank.training.run import Training

TRAINING = Training(
    examples=5000, steps=320, epochs=4.0, history=(0.25, 0.5, 0.75, 0.5)
)


def write(**config):
    return make_card(
        MlcConfig(**config),
        method="A label a tool.",
        counts={"tools": 320, "train queries": 5000},
        trainings={"classifier": TRAINING},
    )


def test_it_says_what_was_trained_on_what_and_how_well(update_corpus):
    expected = CORPUS / "cards" / "labels.tools.json"
    lines = write(name="labels").split("\n")
    version = {__version__: "VERSION"}
    check_expected(expected, lines, version, update=update_corpus)


def test_its_head_names_a_model_of_the_hub_and_no_folder():
    def head(model):
        text = write(encoder=SentenceConfig(model=model))
        return yaml.safe_load(text.split("---")[1])

    assert head("intfloat/e5-small-v2") == {
        "library_name": "toolbank",
        "tags": ["tool-retrieval", "mlc"],
        "base_model": "intfloat/e5-small-v2",
    }
    assert "base_model" not in head("/home/me/encoder")
