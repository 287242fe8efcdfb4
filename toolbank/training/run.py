"""Train a model or a sentence encoder, from the newest checkpoint to the best weights."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from toolbank.system.files import read_json
from toolbank.system.numbers import unsigned
from toolbank.training.checkpoints import (
    find_best,
    find_checkpoint,
    read_history,
    read_state,
)
from toolbank.training.config import (
    TrainingConfig,
    end_training_precision,
    make_arguments,
    one_gpu,
)
from toolbank.training.ranks import broadcast, join_ranks, quiet, rank, wait_for_ranks

if TYPE_CHECKING:
    import torch
    from sentence_transformers import SentenceTransformer

    from toolbank.training.config import TrainingContext


@dataclass(frozen=True)
class Training:
    """The course of a training, for the model card.

    `history` has Recall@5 on the validation set before the training and after each epoch; it is
    empty without a validation set. `best_epoch` is the epoch whose weights are kept, 0 for those
    before the training.
    """

    examples: int
    steps: int
    epochs: float
    history: tuple[float, ...]

    @property
    def best_epoch(self) -> int | None:
        """The first epoch with the best Recall@5; None without a validation set."""
        return find_best(self.history)


def seed_weights(seed: int) -> None:
    """Seed the initialization of new weights; call it before creating a model."""
    from transformers import set_seed

    set_seed(unsigned(seed, 32))


def train_model(
    model: torch.nn.Module,
    rows: Sequence[Mapping[str, Any]],
    config: TrainingConfig,
    context: TrainingContext,
    *,
    collate: Callable[[list[Any]], dict[str, torch.Tensor]],
    lengths: Sequence[int] | None = None,
    validate: Callable[[], float] | None = None,
    title: str = "train",
    part: str = "",
) -> Training:
    """Train a model whose forward takes the output of `collate` and returns "loss".

    The loss is the mean over the batch. `lengths` [n_rows] batch rows of about the same length.
    Rows that differ between epochs have a `set_epoch`, which is called when an epoch begins. If
    they depend on the weights at its beginning, they also have a `save_epoch`, which returns their
    state as JSON, and a `load_epoch`, which takes it when a training resumes. `validate` returns
    Recall@5 on the validation set for the current weights. The first process calls it before the
    first epoch and after each, with dropout off and without gradients. The model is left in
    evaluation mode with the weights of the best epoch: the initial ones if no epoch is better, or
    those of the last epoch without `validate`. A fit that resumes after a kill must therefore start
    from the same initial weights. A method that trains several models in a fit gives each its own
    `part`.

    Raises:
        InputError: this machine does not support a setting.
    """
    from transformers import TrainingArguments

    from toolbank.training.trainers import ModelTrainer

    def make(arguments: dict[str, Any]) -> Any:
        return ModelTrainer(
            lengths=lengths,
            model=model,
            args=one_gpu(TrainingArguments(**arguments)),
            train_dataset=rows,
            eval_dataset=(),
            data_collator=collate,
        )

    return _train(make, model, rows, config, context, validate, title, part)


def train_encoder(
    encoder: SentenceTransformer,
    texts: Sequence[str],
    rows: NDArray[np.int64],
    loss: torch.nn.Module,
    config: TrainingConfig,
    context: TrainingContext,
    *,
    validate: Callable[[], float] | None = None,
    title: str = "train",
    part: str = "",
) -> Training:
    """Train a sentence encoder with a loss of sentence-transformers.

    `rows` [n_rows, m] are positions in `texts`, in the order of the loss: anchor, positive,
    negatives. The label of a row is its number. The caller adds prefixes. Each text is tokenized
    once. Everything else is as in `train_model`.

    Raises:
        InputError: the encoder has no tokens, or this machine does not support a setting.
    """
    from datasets import Dataset
    from sentence_transformers import SentenceTransformerTrainingArguments

    from toolbank.training.trainers import (
        EncoderTrainer,
        PairCollator,
        encode_texts,
        sample_by_length,
    )

    ids = encode_texts(encoder, texts, config.max_length)
    names = ["anchor", "positive", *(f"negative_{i}" for i in range(rows.shape[1] - 2))]
    collator: Any = PairCollator(encoder, ids, names)
    columns = {name: rows[:, i].tolist() for i, name in enumerate(names)}
    dataset = Dataset.from_dict({**columns, "label": list(range(len(rows)))})
    lengths = [max(len(ids[place]) for place in row) for row in rows]

    def make(arguments: dict[str, Any]) -> Any:
        return EncoderTrainer(
            model=encoder,
            args=one_gpu(
                SentenceTransformerTrainingArguments(
                    **arguments, batch_sampler=sample_by_length(lengths)
                )
            ),
            train_dataset=dataset,
            evaluator=[],
            loss=loss,
            data_collator=collator,
        )

    return _train(make, encoder, dataset, config, context, validate, title, part)


def _train(
    make: Callable[[dict[str, Any]], Any],
    model: torch.nn.Module,
    rows: Any,
    config: TrainingConfig,
    context: TrainingContext,
    validate: Callable[[], float] | None,
    title: str,
    part: str,
) -> Training:
    from transformers import EarlyStoppingCallback, PrinterCallback

    from toolbank.training.callbacks import Progress, Saving
    from toolbank.training.checkpoints import BestWeights
    from toolbank.training.trainers import ROWS, EpochStart

    join_ranks()
    best = BestWeights(model) if validate else None
    title = context.name(title)
    saving = Saving(title, context.clock, context.saves)
    progress = Progress(title, saving, context.clock, context.wait)
    with _folder(context, part) as folder, quiet(), _logs(context, part):
        checkpoint = broadcast(find_checkpoint(folder) if rank() == 0 else None)
        arguments = make_arguments(
            config, folder, context.seed, validates=validate is not None
        )
        if checkpoint is not None and (epochs := _stopped_at(checkpoint, config)):
            arguments["num_train_epochs"] = epochs
        trainer = make(arguments)
        trainer.validate, trainer.saving, trainer.best = validate, saving, best
        trainer.rows = rows
        if checkpoint is not None and best:
            history = read_history(read_state(checkpoint))
            best.read(checkpoint, max(history), is_of_an_epoch=bool(find_best(history)))
        if checkpoint is not None and (checkpoint / ROWS).is_file():
            rows.load_epoch(read_json(checkpoint / ROWS))
        trainer.remove_callback(PrinterCallback)
        trainer.add_callback(progress)
        trainer.add_callback(EpochStart(trainer))
        if validate and config.patience:
            trainer.add_callback(EarlyStoppingCallback(config.patience))
        # Last, because it saves what the others decide.
        trainer.add_callback(saving)
        try:
            with saving.stopping_at_a_step():
                trainer.train(
                    resume_from_checkpoint=str(checkpoint) if checkpoint else None
                )
        except KeyboardInterrupt as error:
            kept = context.checkpoints is not None
            raise KeyboardInterrupt(saving.describe_kept() if kept else "") from error
        finally:
            progress.close()
            end_training_precision(model)
        wait_for_ranks()
    training = Training(
        examples=len(rows),
        steps=trainer.state.global_step,
        epochs=float(trainer.state.epoch or 0),
        history=read_history(vars(trainer.state)),
    )
    if best:
        best.put_back()
    model.eval()
    return training


def _stopped_at(checkpoint: Path, config: TrainingConfig) -> float:
    """The epochs after which patience ended the training; 0 if it did not."""
    state = read_state(checkpoint)
    callback = state.get("stateful_callbacks", {}).get("EarlyStoppingCallback", {})
    without_gain = callback.get("attributes", {}).get(
        "early_stopping_patience_counter", 0
    )
    stopped = 0 < config.patience <= without_gain
    return float(state["epoch"]) if stopped else 0.0


@contextmanager
def _folder(context: TrainingContext, part: str) -> Iterator[Path]:
    """The folder of checkpoints; a temporary one if none are kept."""
    if context.checkpoints is not None:
        folder = context.checkpoints / part
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="toolbank-") as name:
        yield Path(broadcast(name))


@contextmanager
def _logs(context: TrainingContext, part: str) -> Iterator[None]:
    """Write the files of TensorBoard to the folder of logs."""
    name = "TENSORBOARD_LOGGING_DIR"
    if context.logs is None or name in os.environ:
        yield
        return
    os.environ[name] = str(context.logs / part)
    try:
        yield
    finally:
        del os.environ[name]
