"""Causal language models that plan: load, train, generate the next step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from toolbank.encoders.model import reading_model
from toolbank.llm.chat import ChatReply, Rejection, check_finish, find_answer
from toolbank.llm.searches import ask_searches, require_replies
from toolbank.papers.experiment import read_frozen
from toolbank.papers.planner.config import LoraConfig, NewModelSize, PlannerModelConfig
from toolbank.papers.planner.plans import LAST, STEP, PlannerPrompts, Situation
from toolbank.retrievers.network import read_transformer
from toolbank.system.errors import InputError
from toolbank.system.extras import naming_extras
from toolbank.training.ranks import quiet
from toolbank.training.run import seed_weights, train_model
from toolbank.training.text import Ids, batches_by_length, pad

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from toolbank.papers.planner.config import PlannerConfig
    from toolbank.papers.planner.plans import PlanStepExample
    from toolbank.training.config import TrainingContext


END = "End of plan."
"""The line after the last step of a plan."""

_BATCH = 32


class LanguageModel:
    """A causal language model and its tokenizer."""

    def __init__(self, model: Any, tokenizer: PreTrainedTokenizerBase) -> None:
        self.model = model
        self.tokenizer = tokenizer

    def tokenise(self, text: str) -> Ids:
        """Tokenize a prompt, with the tokens that the tokenizer puts before every text."""
        return list(self.tokenizer(text, verbose=False)["input_ids"])

    def tokenise_response(self, text: str, most: int) -> Ids:
        """Tokenize a response to at most `most` tokens, the last of them the end."""
        ids = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return [*ids[: most - 1], self.end]

    @property
    def end(self) -> int:
        """The token that ends a response."""
        return int(self.tokenizer.eos_token_id)

    def say(self, prompts: Sequence[Ids], most: int) -> list[str]:
        """Continue each prompt greedily by at most `most` tokens."""
        from tqdm import tqdm

        said = [""] * len(prompts)
        lengths = [len(ids) for ids in prompts]
        self.model.eval()
        with tqdm(total=len(prompts), desc="plan", unit="step", disable=None) as bar:
            for rows in batches_by_length(lengths, _BATCH):
                # Pad on the left: reverse, pad on the right, reverse again.
                batch = pad([prompts[row][::-1] for row in rows], self.end)
                flipped = {
                    name: values.flip(1).to(self.model.device)
                    for name, values in batch.items()
                }
                with torch.inference_mode():
                    made = self.model.generate(
                        **flipped,
                        max_new_tokens=most,
                        do_sample=False,
                        eos_token_id=self.end,
                        pad_token_id=self.end,
                    )
                new = made[:, flipped["input_ids"].shape[1] :]
                texts = self.tokenizer.batch_decode(new, skip_special_tokens=True)
                for row, text in zip(rows, texts, strict=True):
                    said[row] = text
                bar.update(len(rows))
        return said

    def save(self, folder: Path) -> None:
        """Write the model to a folder that transformers reads."""
        with quiet():
            self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)

    def adapt(self, config: LoraConfig) -> None:
        """Add LoRA weights, which are trained instead of the others.

        Raises:
            InputError: peft is not installed.
        """
        with naming_extras("planner.lora"):
            import peft
        self.model = peft.get_peft_model(
            self.model,
            peft.LoraConfig(
                r=config.rank,
                lora_alpha=config.alpha,
                lora_dropout=config.dropout,
                target_modules="all-linear",
                task_type="CAUSAL_LM",
            ),
        )


def read_model(name: str) -> LanguageModel:
    """Read a causal model from a folder, the cache of the hub, or the hub.

    Raises:
        InputError: there is no such model, it cannot be downloaded or read, or its tokenizer has no
            end token.
    """
    from transformers import AutoModelForCausalLM

    model, tokenizer = read_transformer(name, lambda _: AutoModelForCausalLM)
    if tokenizer.eos_token_id is None:
        raise InputError(
            f"planner.model: the tokenizer of {name} has no token for the end of a text. Choose "
            "another model."
        )
    return LanguageModel(model, tokenizer)


def load_planner(folder: Path) -> LanguageModel:
    """Read what `LanguageModel.save` wrote; on a GPU, if there is one, in half precision.

    Raises:
        InputError: a file is missing or damaged.
    """
    with reading_model(folder, "Train it again: toolbank planner train RUN."):
        return LanguageModel(*read_frozen(folder, "AutoModelForCausalLM"))


def make_model(
    size: NewModelSize, texts: Iterable[str], positions: int
) -> LanguageModel:
    """Make a Llama with random weights and a byte-level BPE of the texts.

    The texts and the seed of torch determine it.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    end = "<end>"
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size.vocabulary,
        special_tokens=[end],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator(texts, trainer)
    tokenizer = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=bpe, eos_token=end, model_max_length=positions
    )
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=size.width,
        intermediate_size=size.width * 8 // 3,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        num_key_value_heads=size.heads,
        max_position_embeddings=positions,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.eos_token_id,
    )
    return LanguageModel(LlamaForCausalLM(config), tokenizer)


@dataclass(frozen=True)
class Prediction:
    """A step on one line, whether it ends the plan, and whether the prompt was cut to fit."""

    text: str
    is_last: bool = False
    is_cut: bool = False


StepPredictor = Callable[[Sequence[Situation]], list[Prediction]]
"""Predicts the next step of each situation."""


def generate_steps(
    model: LanguageModel,
    prompts: PlannerPrompts,
    config: PlannerConfig,
    situations: Sequence[Situation],
) -> list[Prediction]:
    """Predict steps with a trained model, within the lengths of its training."""
    room = config.training.max_length - config.response
    fitted = [prompts.fit(one, model.tokenise, room) for one in situations]
    texts = model.say([ids for ids, _ in fitted], config.response)
    found = []
    for text, (_, is_cut) in zip(texts, fitted, strict=True):
        step, end, _ = text.partition(END)
        found.append(Prediction(" ".join(step.split()), bool(end), is_cut))
    return found


def request_steps(
    config: PlannerModelConfig,
    prompts: PlannerPrompts,
    situations: Sequence[Situation],
) -> list[Prediction]:
    """Predict steps with an engine; a reply without a step gives "", as the last.

    Replies are kept in the journal of its settings, and requested once.

    Raises:
        InputError: the engine or the prompt cannot be used.
        ToolbankError: calls failed or are pending; the same command requests those that are missing.
    """
    requests = [prompts.make_request(situation) for situation in situations]
    answers = ask_searches(requests, lambda _, reply: _read_step(reply), config)
    require_replies(answers, config)
    return [
        Prediction("", True) if isinstance(one.value, Rejection) else one.value
        for one in answers
    ]


def _read_step(reply: ChatReply) -> Prediction | Rejection:
    answer = check_finish(reply) or find_answer(reply.text, [STEP])
    if isinstance(answer, Rejection):
        return answer
    text = " ".join(str(answer[STEP]).split())
    return Prediction(text, answer.get(LAST) is True)


_NOT_LEARNT = -100


def train_planner(
    examples: Sequence[PlanStepExample],
    situations: Sequence[Situation],
    prompts: PlannerPrompts,
    config: PlannerConfig,
    context: TrainingContext,
) -> tuple[LanguageModel, dict[str, Any]]:
    """Train a model to predict the step of each example; also return the figures of the training.

    The loss is the mean cross-entropy of the tokens of steps, without those of prompts. The line
    `END` follows the last step of a plan.

    Raises:
        InputError: the model cannot be read, or this machine does not support a setting.
    """
    texts = [
        f"{example.step.text}\n{END}" if example.is_last else example.step.text
        for example in examples
    ]
    seed_weights(context.seed)
    length = config.training.max_length
    if isinstance(config.model, str):
        model = read_model(config.model)
    else:
        assert config.model, "`ask` is not trained"
        rendered = [prompts.render(situation) for situation in situations]
        model = make_model(config.model.new, [*rendered, *texts], length)
    if config.lora:
        model.adapt(config.lora)
    rows, cut = [], 0
    room = length - config.response
    for situation, text in zip(situations, texts, strict=True):
        ids, is_cut = prompts.fit(situation, model.tokenise, room)
        said = model.tokenise_response(text, config.response)
        rows.append({"prompt": ids, "said": said})
        cut += is_cut

    def collate(batch: list[Mapping[str, list[int]]]) -> dict[str, Any]:
        whole = pad([[*row["prompt"], *row["said"]] for row in batch], model.end)
        labels = pad(
            [[_NOT_LEARNT] * len(row["prompt"]) + row["said"] for row in batch],
            _NOT_LEARNT,
        )["input_ids"]
        # No logits are needed before the first step of the batch.
        kept = labels.shape[1] - min(len(row["prompt"]) for row in batch) + 1
        return {**whole, "labels": labels[:, -kept:], "logits_to_keep": kept}

    network: Any = model.model
    training = train_model(
        network,
        rows,
        config.training,
        context,
        collate=collate,
        lengths=[len(row["prompt"]) + len(row["said"]) for row in rows],
        title="train planner",
    )
    if config.lora:
        model.model = model.model.merge_and_unload()
    model.model.eval()
    return model, {
        "examples": training.examples,
        "steps": training.steps,
        "epochs": training.epochs,
        "parameters": sum(p.numel() for p in model.model.parameters()),
        "prompts_cut": cut / len(rows),
    }
