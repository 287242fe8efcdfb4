"""The encoder of a dense retriever: as it is, or fine-tuned and saved with the retriever."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from toolbank.bank.bank import Bank
from toolbank.encoders.config import EncoderConfig
from toolbank.encoders.places import saved_encoder
from toolbank.encoders.sentence import Encoder, load_encoder
from toolbank.retrievers.usage import train_usage
from toolbank.retrievers.validation import validation_queries, validation_recall
from toolbank.training.card import keep_card, write_card

if TYPE_CHECKING:
    from toolbank.encoders.finetune.finetune import FineTuned
    from toolbank.retrievers.descriptions.config import DescriptionsConfig
    from toolbank.retrievers.descriptions.retriever import DescriptionsRetriever
    from toolbank.retrievers.protocol import FitContext
    from toolbank.retrievers.tool2vec.config import Tool2VecConfig
    from toolbank.retrievers.tool2vec.retriever import Tool2VecRetriever


def take_encoder(
    retriever: DescriptionsRetriever | Tool2VecRetriever,
    bank: Bank,
    documents: Sequence[str],
    context: FitContext,
    use: Callable[[Encoder | None], None],
) -> FineTuned | None:
    """Have a retriever embed its tools, by an encoder that is fine-tuned first if so configured.

    It is trained on the bank's train queries and `documents` [n_tools]. `use` has the retriever
    embed its tools by an encoder, or by its own as it is (None).

    Raises:
        InputError: no pair can be made of the queries, or the encoder can't be trained.
    """
    config, training = retriever.config.encoder, retriever.config.training
    if training is None:
        use(None)
        return None
    from toolbank.encoders.finetune.finetune import fine_tune
    from toolbank.encoders.finetune.texts import make_texts

    def validate(encoder: Encoder) -> float:
        use(encoder)
        return validation_recall(retriever.search, bank)

    usage = train_usage(bank)
    tuned = fine_tune(
        config,
        training,
        make_texts(config, usage.queries, usage.tools, documents),
        context,
        validate if validation_queries(bank) else None,
        f"{retriever.name}: encoder",
    )
    use(tuned.encoder)
    return tuned


def save_encoder(
    folder: Path,
    config: DescriptionsConfig | Tool2VecConfig,
    encoder: Encoder | None,
    tuned: FineTuned | None,
    method: str,
    card: str,
) -> None:
    """Write a retriever's own encoder, if it has one, and a model card into its folder.

    `card` is what the retriever was loaded with, and stays where it was not fitted since.
    """
    if encoder is None:
        return
    encoder.save(Path(saved_encoder(folder, encoder.config).model))
    if tuned is not None:
        write_card(
            folder,
            config,
            method=method,
            counts=tuned.counts,
            trainings={"encoder": tuned.training},
        )
    else:
        keep_card(folder, card)


def read_encoder(folder: Path, config: EncoderConfig) -> Encoder:
    """Read what `save_encoder` wrote.

    Raises:
        InputError: it is missing or damaged.
    """
    return load_encoder(saved_encoder(folder, config))
