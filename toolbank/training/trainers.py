"""The Trainers of the libraries, made deterministic.

The order of the examples depends on the seed and the epoch alone, so it is the same in all
processes and in a training that resumes. The first process validates, with dropout off. A loss is
the mean of its batch.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from sentence_transformers import SentenceTransformerTrainer
from sentence_transformers.base.sampler import DefaultBatchSampler
from torch.utils.data import Sampler
from transformers import Trainer, TrainerCallback
from transformers.trainer_pt_utils import get_length_grouped_indices
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from toolbank.system.errors import InputError, ToolbankError
from toolbank.system.files import write_json
from toolbank.training.callbacks import Saving
from toolbank.training.checkpoints import ASIDE, BestWeights, place_checkpoint
from toolbank.training.config import METRIC, full_precision
from toolbank.training.ranks import broadcast, rank, wait_for_ranks
from toolbank.training.text import Ids, pad, pad_id

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


Validate = Callable[[], float]
ROWS = "rows.json"
"""The file of a checkpoint with the state of rows that differ between epochs."""


class EpochSampler(Sampler[int]):
    """Yield every position once, in an order of the seed and the epoch, grouped by length.

    Without `lengths` it is a plain shuffle. `begin` is called with the number of each epoch before
    its first example is read.
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
        """Set the epoch of the next order."""
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
    """Batch the positions of `EpochSampler` for sentence-transformers."""

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next order."""
        super().set_epoch(epoch)
        rows: Any = self.sampler
        rows.set_epoch(epoch)


class TrainerBase(Trainer):
    """How both Trainers validate, save, and resume within an epoch.

    `rows` may differ between epochs. `saving` times the saves and `best` keeps the best weights;
    all are set before the training.
    """

    validate: Validate | None = None
    rows: Any = None
    saving: Saving
    best: BestWeights | None = None
    _order: EpochSampler | EpochBatches
    _aside: str = ""

    def evaluate(self, *_: Any, **__: Any) -> dict[str, float]:
        """Compute Recall@5 with dropout off, in 32 bits."""
        model: Any = self.model
        model.eval()
        value = 0.0
        if rank() == 0 and self.validate is not None:
            with (
                torch.no_grad(),
                full_precision(model),
                self.saving.out_of_steps(),
            ):
                value = float(self.validate())
        value = broadcast(value)
        if self.best is not None:
            self.best.look(value, self.state.global_step)
        metrics = {f"eval_{METRIC}": value}
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(
            self.args, self.state, self.control, metrics
        )
        return metrics

    def begin_epoch(self, number: int) -> None:
        """Set the order of the examples to that of an epoch.

        The libraries do so too, but not if they skip the first batches and several processes share
        the others.
        """
        self._order.set_epoch(number)

    def _get_output_dir(self, trial: Any) -> str:
        return self._aside or super()._get_output_dir(trial)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        folder = Path(str(self.args.output_dir))
        aside = folder / ASIDE
        name = f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}"
        with self.saving.timed(self.state.global_step):
            if rank() == 0:
                shutil.rmtree(aside, ignore_errors=True)
            wait_for_ranks()
            self._aside = str(aside)
            try:
                super()._save_checkpoint(model, trial)
                if rank() == 0:
                    if self.best is not None:
                        self.best.write(aside / name, folder / name)
                    if hasattr(self.rows, "save_epoch"):
                        write_json(aside / name / ROWS, self.rows.save_epoch())
            except (OSError, RuntimeError, SafetensorError) as error:
                raise ToolbankError(
                    f"{folder / name}: cannot write ({error}). Free some space, or make the folder "
                    "writable. The same command resumes from the checkpoint before it."
                ) from error
            finally:
                self._aside = ""
            wait_for_ranks()
            if rank() == 0:
                place_checkpoint(aside / name, folder)


class EpochStart(TrainerCallback):
    """Set the order of each epoch, and validate before the first step.

    The order is also set if a training resumes within an epoch. The first validation is stored in
    the state as that of epoch 0, and thus in every checkpoint: an epoch is kept only if it is better.
    """

    def __init__(self, trainer: TrainerBase) -> None:
        self._trainer = trainer

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        """Set the order of the examples."""
        self._trainer.begin_epoch(int(state.epoch or 0))

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        """Validate, unless the training resumes from a checkpoint."""
        if self._trainer.validate is not None and state.global_step == 0:
            metrics = self._trainer.evaluate()
            state.best_metric = metrics[f"eval_{METRIC}"]


class ModelTrainer(TrainerBase):
    """Train a model whose forward returns the mean loss of a batch as "loss"."""

    def __init__(self, *, lengths: Sequence[int] | None, **settings: Any) -> None:
        super().__init__(**settings)
        self._lengths = lengths
        # The loss is the mean of a batch. By default, a model that accepts any keyword is taken to
        # divide it by the number of labels in all accumulated batches and processes.
        self.model_accepts_loss_kwargs = False

    def _get_train_sampler(self, train_dataset: Any = None) -> EpochSampler:
        rows: Any = train_dataset or self.train_dataset
        size = self.args.train_batch_size * self.args.world_size
        begin = getattr(rows, "set_epoch", None)
        self._order = EpochSampler(
            len(rows), self.args.seed, size, self._lengths, begin
        )
        return self._order


class EncoderTrainer(TrainerBase, SentenceTransformerTrainer):
    """Train a sentence encoder with a loss of sentence-transformers."""

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        """Add none: saving the retriever writes its card."""

    def get_batch_sampler(self, *given: Any, **named: Any) -> EpochBatches:
        """Return the batches of `sample_by_length`."""
        batches: Any = super().get_batch_sampler(*given, **named)
        self._order = batches
        return batches  # type: ignore[no-any-return]

    def _save(
        self,
        output_dir: str | None = None,
        state_dict: Any = None,  # noqa: ARG002
    ) -> None:
        self.model.save_pretrained(str(output_dir), create_model_card=False)


_AT_ONCE = 256


def encode_texts(
    encoder: SentenceTransformer, texts: Sequence[str], max_length: int
) -> list[Ids]:
    """Tokenize texts as the encoder does, to at most `max_length` token ids each.

    Raises:
        InputError: the encoder is not a transformer, so it has no tokens to pad.
    """
    found: list[Ids] = []
    for start in range(0, len(texts), _AT_ONCE):
        batch = encoder.preprocess(list(texts[start : start + _AT_ONCE]))
        if "offsets" in batch:
            # The tokens of a static embedding, one text after another.
            parts = batch["input_ids"].tensor_split(batch["offsets"][1:])
            found += [_cut(part.tolist(), max_length) for part in parts]
            continue
        if "attention_mask" not in batch:
            raise InputError(
                "encoder.model: not a transformer, so it cannot be fine-tuned. Choose "
                "another one, such as all-MiniLM-L6-v2."
            )
        for ids, mask in zip(batch["input_ids"], batch["attention_mask"], strict=True):
            found.append(_cut(ids[mask.bool()].tolist(), max_length))
    return found


def sample_by_length(lengths: Sequence[int]) -> Callable[..., EpochBatches]:
    """Return a factory of batches whose rows [n_rows] have about the same length."""

    def make(dataset: Any, *, seed: int, **settings: Any) -> EpochBatches:
        rows = EpochSampler(len(dataset), seed, settings["batch_size"], lengths)
        return EpochBatches(rows, seed=seed, **settings)

    return make


class PairCollator:
    """Turn rows of positions into the input of a loss of sentence-transformers."""

    valid_label_columns = ("label",)

    def __init__(
        self, encoder: SentenceTransformer, ids: Sequence[Ids], columns: Sequence[str]
    ) -> None:
        self._pad_id = pad_id(encoder.tokenizer)
        self._ids = ids
        self._columns = columns

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
        """Pad the `input_ids` and `attention_mask` of each column, and add the `label` of each row."""
        batch: dict[str, torch.Tensor] = {}
        for column in self._columns:
            padded = pad([self._ids[row[column]] for row in rows], self._pad_id)
            batch |= {f"{column}_{name}": values for name, values in padded.items()}
        batch["label"] = torch.tensor([row["label"] for row in rows])
        return batch


def _cut(ids: Ids, max_length: int) -> Ids:
    """Keep the first ids and the last one, which ends a text."""
    return ids if len(ids) <= max_length else [*ids[: max_length - 1], ids[-1]]
