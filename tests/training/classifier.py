"""A tiny classifier of requests, to be trained by tests and by the processes they start."""

from dataclasses import replace

import torch

from tests.tiny_models import tiny_encoder
from toolbank.training.run import seed_weights, train_model
from toolbank.training.text import pad, pad_id, tokenise

TEXTS = [
    f"{verb} {thing} {'again ' * (i % 7)}"
    for i, (verb, thing) in enumerate(
        (verb, thing)
        for verb in ("play", "stop", "open", "close", "buy", "send", "track", "paint")
        for thing in ("song", "door", "parcel", "lawn", "car", "room", "mail", "book")
    )
]
N_LABELS = 16


class Killed(BaseException):
    """Stands for a kill: nothing after it is done."""


class Rows(list):
    def __init__(self, rows):
        super().__init__(rows)
        self.read = []

    def __getitem__(self, place):
        self.read.append(place)
        return super().__getitem__(place)


class Clock:
    """Gives the seconds that went by, which are told to it; a step takes `step_s` of them."""

    def __init__(self, step_s=0.0):
        self.now = 0.0
        self.step_s = step_s

    def __call__(self):
        return self.now


class Classifier:
    """A multi-label classifier with its rows: a label for the verb, one for the thing."""

    def __init__(self, folder, dropout=0.1, kind="minilm", seed=0, clock=None):
        from transformers import AutoModelForSequenceClassification, AutoTokenizer

        if not (folder / "config.json").exists():
            tiny_encoder(folder, kind, dropout)
        tokenizer = AutoTokenizer.from_pretrained(folder)
        seed_weights(seed)
        self.model = AutoModelForSequenceClassification.from_pretrained(
            folder, num_labels=N_LABELS, problem_type="multi_label_classification"
        )
        self.steps = 0
        self.on_step = {}
        self.clock = clock or Clock()
        self.model.register_forward_pre_hook(self._step)
        self.pad_id = pad_id(tokenizer)
        self.ids = tokenise(tokenizer, TEXTS, 32)
        self.labels = torch.zeros(len(TEXTS), N_LABELS)
        for place in range(len(TEXTS)):
            self.labels[place, [place // 8, 8 + place % 8]] = 1
        self.rows = Rows(range(len(TEXTS)))

    def _step(self, module, _):
        """Have a step take its time, and something happen in the step of a number."""
        if module.training:
            self.clock.now += self.clock.step_s
            self.steps += 1
            self.on_step.get(self.steps, int)()

    def collate(self, places):
        return {
            **pad([self.ids[place] for place in places], self.pad_id),
            "labels": self.labels[list(places)],
        }

    def loss(self):
        """The mean loss over all rows, as it is with dropout off."""
        self.model.eval()
        with torch.no_grad():
            batch = self.collate(range(len(TEXTS)))
            return self.model(**batch.copy()).loss.item()

    def weights(self):
        return {k: v.detach().clone() for k, v in self.model.state_dict().items()}

    def train(self, config, context, validate=None, **settings):
        context = replace(context, clock=self.clock)
        return train_model(
            self.model,
            self.rows,
            config,
            context,
            collate=self.collate,
            lengths=[len(ids) for ids in self.ids],
            validate=validate,
            **settings,
        )


def difference(one, other):
    assert one.keys() == other.keys()
    return max((one[name] - other[name]).abs().max().item() for name in one)
