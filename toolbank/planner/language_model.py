"""Causal language models: read, made anew, saved, and asked for steps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from toolbank.encoders.model import reading_model
from toolbank.planner.config import LoraConfig, NewModelSize
from toolbank.retrievers.network import read_transformer
from toolbank.system.errors import InputError
from toolbank.system.extras import telling_extras
from toolbank.training.config import find_inference_type
from toolbank.training.ranks import quiet
from toolbank.training.text import Ids, batches_by_length, pad

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

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
