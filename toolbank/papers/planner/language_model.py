"""Causal language models that plan: load, train, generate the next step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from toolbank.encoders.model import reading_model
from toolbank.llm.chat import ChatReply, Rejection, check_finish, find_answer
from toolbank.llm.searches import ask_searches, demand_replies
from toolbank.papers.planner.config import LoraConfig, NewModelSize, PlannerModelConfig
from toolbank.papers.planner.plans import LAST, STEP, PlannerPrompts, Situation
from toolbank.retrievers.network import read_transformer
from toolbank.system.errors import InputError
from toolbank.system.extras import telling_extras
from toolbank.training.config import find_inference_type
from toolbank.training.ranks import quiet
from toolbank.training.run import seed_weights, train_model
from toolbank.training.text import Ids, batches_by_length, pad

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from toolbank.papers.planner.config import PlannerConfig
    from toolbank.papers.planner.plans import PlanStepExample
    from toolbank.training.config import TrainingContext


END = "End of plan."
"""The line after a plan's last step."""

_BATCH = 32
_AGAIN = "Make it again: toolbank planner train RUN."


class LanguageModel:
    """A causal language model and its tokenizer."""

    def __init__(self, model: Any, tokenizer: PreTrainedTokenizerBase) -> None:
        self.model = model
        self.tokenizer = tokenizer

    def tokenise(self, text: str) -> Ids:
        """A prompt as tokens, with those that the tokenizer puts before every text."""
        return list(self.tokenizer(text, verbose=False)["input_ids"])

    def tokenise_response(self, text: str, most: int) -> Ids:
        """What is to be said as at most so many tokens, the last of them the end."""
        ids = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return [*ids[: most - 1], self.end]

    @property
    def end(self) -> int:
        """The token that ends a response."""
        return int(self.tokenizer.eos_token_id)

    def say(self, prompts: Sequence[Ids], most: int) -> list[str]:
        """What follows each prompt, by the most probable token at a time, at most so many."""
        from tqdm import tqdm

        said = [""] * len(prompts)
        lengths = [len(ids) for ids in prompts]
        self.model.eval()
        with tqdm(total=len(prompts), desc="plan", unit="step", disable=None) as bar:
            for rows in batches_by_length(lengths, _BATCH):
                # Reversed, padded on the right and reversed again: padded on the left.
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
        """Write a folder that transformers reads, too."""
        with quiet():
            self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)

    def adapt(self, config: LoraConfig) -> None:
        """Have low-rank additions trained in place of the weights.

        Raises:
            InputError: peft is not installed.
        """
        with telling_extras("planner.lora"):
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

    def merge(self) -> None:
        """Take the additions of `adapt` into the weights."""
        if hasattr(self.model, "merge_and_unload"):
            self.model = self.model.merge_and_unload()


def read_model(name: str) -> LanguageModel:
    """A causal model of a folder, the hub's cache or the hub.

    Raises:
        InputError: there is no such model, it can't be had or read, or its tokenizer has no end.
    """
    from transformers import AutoModelForCausalLM

    model, tokenizer = read_transformer(name, lambda _: AutoModelForCausalLM)
    if tokenizer.eos_token_id is None:
        raise InputError(
            f"planner.model: the tokenizer of {name} has no token for the end of a text. Take "
            "another model."
        )
    return LanguageModel(model, tokenizer)


def load_planner(folder: Path) -> LanguageModel:
    """What `LanguageModel.save` wrote; on a GPU, if there is one, in half precision.

    Raises:
        InputError: a file is missing or damaged.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer

    cuda = torch.cuda.is_available()
    with reading_model(folder, _AGAIN):
        model: Any = AutoModelForCausalLM.from_pretrained(
            folder,
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            dtype=find_inference_type(),
        )
        return LanguageModel(
            model.to("cuda" if cuda else "cpu").eval(),
            AutoTokenizer.from_pretrained(folder, local_files_only=True),
        )


def make_model(
    size: NewModelSize, texts: Iterable[str], positions: int
) -> LanguageModel:
    """A Llama with random weights, its byte-level BPE learnt on these texts.

    The same texts and the same seed of torch, the same model.
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


Speaker = Callable[[Sequence[Situation]], list[Prediction]]
"""Says the next step of each situation."""


def say_steps(
    model: LanguageModel,
    prompts: PlannerPrompts,
    config: PlannerConfig,
    situations: Sequence[Situation],
) -> list[Prediction]:
    """One step each by a trained model, within as many tokens as it was trained with."""
    room = config.training.max_length - config.response
    fitted = [prompts.fit(one, model.tokenise, room) for one in situations]
    texts = model.say([ids for ids, _ in fitted], config.response)
    found = []
    for text, (_, is_cut) in zip(texts, fitted, strict=True):
        step, end, _ = text.partition(END)
        found.append(Prediction(" ".join(step.split()), bool(end), is_cut))
    return found


def ask_steps(
    config: PlannerModelConfig,
    prompts: PlannerPrompts,
    situations: Sequence[Situation],
) -> list[Prediction]:
    """One step each by an engine; "", as the last, where a reply has none.

    Replies are kept in the journal of its settings, and asked for once.

    Raises:
        InputError: the engine or the prompt can't be used.
        ToolbankError: calls failed or are still to be answered; what was answered is kept, and
            the same command asks for the rest.
    """
    requests = [prompts.make_request(situation) for situation in situations]
    answers = ask_searches(requests, lambda _, reply: _read_step(reply), config)
    demand_replies(answers, config.replies)
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
    """A model that says each example's step in its situation, and the figures of its training.

    The loss is the mean cross-entropy of the steps' tokens; the prompts' are not learnt. The line
    `END` follows a plan's last step.

    Raises:
        InputError: the model or a setting of the training can't be had here.
    """
    texts = [
        f"{example.step.text}\n{END}" if example.is_last else example.step.text
        for example in examples
    ]
    seed_weights(context.seed)
    length = config.training.max_length
    if config.model is None:
        raise ValueError("planner.ask is not trained")
    if isinstance(config.model, str):
        model = read_model(config.model)
    else:
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
        # Of what is before the first step of all, no token's logits are needed.
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
    model.merge()
    model.model.eval()
    return model, {
        "examples": training.examples,
        "steps": training.steps,
        "epochs": training.epochs,
        "parameters": sum(p.numel() for p in model.model.parameters()),
        "prompts_cut": cut / len(rows),
    }
