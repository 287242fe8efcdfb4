import yaml

from toolbank.encoders.sentence import SentenceConfig
from toolbank.retrievers.settings import MlcConfig
from toolbank.training.card import make_card
from toolbank.training.run import Training

TRAINING = Training(
    examples=5000,
    steps=320,
    epochs=4.0,
    history=(0.25, 0.5, 0.75, 0.625),
)


def write(**config):
    return make_card(
        MlcConfig(**config),
        method="A label a tool.",
        counts={"tools": 320, "train queries": 5000},
        trainings={"classifier": TRAINING},
    )


def test_it_says_what_was_trained_on_what_and_how_well():
    text = write(name="labels")
    for told in (
        "# labels\n",
        "A label a tool.",
        "- train queries: 5,000\n",
        "5,000 examples, 320 steps, 4 epochs.",
        "0.2500 before the training, 0.7500 after epoch 2, 0.6250 after epoch 3",
        "weights are those after epoch 2",
        "learning_rate: 5.0e-05",
    ):
        assert told in text
    assert write(name="labels") == text


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
