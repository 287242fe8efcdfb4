"""The libraries' Trainers, with what they leave to chance made certain.

The order of the examples is a function of the seed and the epoch, so that all processes have the
same and a training that goes on has the one that it would have had. The validation set is
looked at with dropout off, by the first process alone. A loss is the mean of its batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from sentence_transformers import SentenceTransformerTrainer
from sentence_transformers.base.sampler import DefaultBatchSampler
from torch.utils.data import Sampler
from transformers import Trainer, TrainerCallback, TrainerState
from transformers.trainer_pt_utils import get_length_grouped_indices

from toolbank.training.arguments import METRIC
from toolbank.training.ranks import broadcast, rank

Validate = Callable[[], float]


class EpochSampler(Sampler[int]):
    """Every position once, in an order of the seed's and the epoch's; near ones alike in length.

    Without `lengths` it is a plain shuffle. `begin` is told of each epoch before its first example
    is read.
    """

    def __init__(
        self,
        count: int,
        seed: int,
        batch_size: int,
        lengths: Sequence[int] | None,
        begin: Callable[[int], None] | None = None,
    ) -> None:
        self._count = count
        self._seed = seed
        self._batch_size = batch_size
        self._lengths = list(lengths) if lengths is not None else None
        self._begin = begin
        self._epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch the next order is of."""
        self._epoch = epoch

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[int]:
        if self._begin is not None:
            self._begin(self._epoch)
        generator = torch.Generator().manual_seed(self._seed + self._epoch)
        if self._lengths is None:
            return iter(torch.randperm(self._count, generator=generator).tolist())
        return iter(
            get_length_grouped_indices(  # type: ignore[no-untyped-call]
                self._lengths, self._batch_size, generator=generator
            )
        )


class EpochBatches(DefaultBatchSampler):
    """Batches of `EpochSampler` for sentence-transformers."""

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch the next order is of."""
        super().set_epoch(epoch)
        rows: Any = self.sampler
        rows.set_epoch(epoch)


class _Validating:
    """Validation by a function of our own, in place of a loop over a dataset."""

    validate: Validate | None = None

    def evaluate(self, *_: Any, **__: Any) -> dict[str, float]:
        """Take Recall@5, with dropout off."""
        trainer: Any = self
        trainer.model.eval()
        value = 0.0
        if rank() == 0 and self.validate is not None:
            with torch.no_grad():
                value = float(self.validate())
        metrics = {f"eval_{METRIC}": broadcast(value)}
        trainer.log(metrics)
        trainer.control = trainer.callback_handler.on_evaluate(
            trainer.args, trainer.state, trainer.control, metrics
        )
        return metrics


class ValidateFirst(TrainerCallback):
    """Takes Recall@5 before the first step: an epoch stays only if it is better than that.

    It is in the state as if of epoch 0, and so in every checkpoint.
    """

    def __init__(self, trainer: _Validating) -> None:
        self._trainer = trainer

    def on_train_begin(
        self,
        args: Any,  # noqa: ARG002
        state: TrainerState,
        control: Any,  # noqa: ARG002
        **_: Any,
    ) -> None:
        """Validate, unless the training goes on from a checkpoint."""
        if state.global_step == 0:
            metrics = self._trainer.evaluate()
            state.best_metric = metrics[f"eval_{METRIC}"]


class ModelTrainer(_Validating, Trainer):
    """Trains a model whose forward gives the mean loss of a batch as "loss"."""

    def __init__(self, *, lengths: Sequence[int] | None, **settings: Any) -> None:
        super().__init__(**settings)
        self._lengths = lengths
        # Models that take any keyword would be believed to have divided their loss by the
        # number of labels in all accumulated batches and processes; ours give a batch's mean.
        self.model_accepts_loss_kwargs = False

    def _get_train_sampler(self, train_dataset: Any = None) -> EpochSampler:
        rows: Any = train_dataset or self.train_dataset
        size = self.args.train_batch_size * self.args.world_size
        begin = getattr(rows, "set_epoch", None)
        return EpochSampler(len(rows), self.args.seed, size, self._lengths, begin)


class EncoderTrainer(_Validating, SentenceTransformerTrainer):
    """Trains a sentence encoder by one of the library's losses."""

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        """None: the card is written when the retriever is saved."""

    def _save(
        self,
        output_dir: str | None = None,
        state_dict: Any = None,  # noqa: ARG002
    ) -> None:
        self.model.save_pretrained(str(output_dir), create_model_card=False)

    def _load_best_model(self) -> None:
        # The library's logs an error and goes on with the last weights.
        self._load_from_checkpoint(str(self.state.best_model_checkpoint))
