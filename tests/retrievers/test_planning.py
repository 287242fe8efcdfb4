import pytest

from tests.retrievers.small_methods import configure, encoder_for, fit, fit_one
from tests.world import make_bank
from toolbank.bank.bank import Bank
from toolbank.bank.records import Ask
from toolbank.retrievers.kind import RetrieverConfig, plan_fit
from toolbank.retrievers.settings import ProtipConfig, RefinerConfig, Tool2VecConfig
from toolbank.training import run
from toolbank.training.config import TrainingConfig

TRAINING = {"epochs": 1.5, "batch_size": 3, "warmup": 0}
SEED = 5


@pytest.fixture(scope="module")
def bank():
    places = [(n % 7, (3 * n + 1) % 7) for n in range(22)]
    uses = [
        (
            f"{a} then {b} in {n % 19}",
            dict.fromkeys((f"t.{a}", f"t.{b}")),
            "validation" if n % 6 == 5 else "train",
        )
        for n, (a, b) in enumerate(places)
    ]
    asks = [Ask(tool=f"t.{n}", kind="terse", ask=f"only {n}") for n in range(4)]
    return make_bank(
        {f"t.{n}": f"do {n}" for n in range(8)},
        [*uses, ("nothing here", ["gone"], "train")],
        {"ordered": True},
        asks=tuple(asks),
    )


@pytest.fixture(scope="module")
def configs(bank, tmp_path_factory):
    encoder = encoder_for(tmp_path_factory.mktemp("encoder"), bank)
    short = {"encoder": encoder, "training": TRAINING}
    triplets = {"loss": "triplet", "pairs": ("query-query",)} | TRAINING
    hard = {"hard_negatives": 2, "accumulation": 2} | TRAINING
    more = (
        Tool2VecConfig(name="triplets", encoder=encoder, training=triplets),
        Tool2VecConfig(name="hard", encoder=encoder, training=hard),
        *(
            RefinerConfig(
                name=name, first_stage=first, vectors=vectors, candidates=4, **short
            )
            for name, first, vectors in (
                ("over-tuned", "tuned-tool2vec", "triplets"),
                ("over-frozen", "mlc-frozen", "tool2vec"),
                ("over-refiner", "over-tuned", "tool2vec"),
            )
        ),
        ProtipConfig(name="hard-protip", negatives="hard", **short),
    )
    return configure(encoder, **TRAINING) | {config.label: config for config in more}


LABELS = (
    *("tuned-tool2vec", "tuned-descriptions", "triplets", "hard", "mlc", "mlc-frozen"),
    *("refiner", "over-tuned", "over-frozen", "protip", "hard-protip", "nnn"),
    "decomposition",
)


@pytest.mark.parametrize(
    ("label", "validates"),
    [
        *((label, True) for label in LABELS),
        *((label, False) for label in ("tuned-tool2vec", "mlc", "refiner", "protip")),
        pytest.param("over-refiner", True, marks=pytest.mark.slow),
    ],
)
def test_the_planned_steps_are_done(label, validates, bank, configs, monkeypatch):
    if not validates:
        bank = Bank(bank.tools, bank.split("train"), bank.info)
    config = configs[label]
    stages = [fit(need, configs, bank) for need in config.needs]
    done = []
    train = run._train

    def note(make, model, rows, training, context, validate, title, part):
        result = train(make, model, rows, training, context, validate, title, part)
        done.append((context.name(title), result.steps))
        return result

    monkeypatch.setattr(run, "_train", note)
    fit_one(config, bank, *stages, seed=SEED)
    planned = list(plan_fit(config, configs, bank, SEED))
    assert [(each.title, each.steps) for each in planned] == done


def test_a_method_that_does_not_say_has_trainings_of_unknown_length(bank):
    class MineConfig(RetrieverConfig):
        type: str = "mine"
        training: TrainingConfig = TrainingConfig()

    [planned] = plan_fit(MineConfig(), {}, bank, SEED)
    assert (planned.title, planned.steps) == ("mine", None)
