"""Any language model of transformers, causal or masked, and the states of its layers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolbank.encoders.layers.prompt import put_in_prompt
from toolbank.encoders.locate import ADAPTED, merge_adapter
from toolbank.encoders.model import find_model, reading_model
from toolbank.system.errors import InputError
from toolbank.training.config import find_inference_type

if TYPE_CHECKING:
    import torch

_REMEDY = (
    "A language model needs config.json, a tokenizer, and weights as safetensors; pickled weights "
    "and code that comes with a model are not read."
)


class LanguageModel:
    """A language model without its head, as it is; on a GPU, if there is one, in half precision."""

    def __init__(self, name: str) -> None:
        folder = find_model(name)
        with reading_model(folder, _REMEDY):
            import torch
            from transformers import AutoModel, AutoTokenizer

            cuda = torch.cuda.is_available()
            place = _find_transformer(folder)
            self._tokenizer: Any = AutoTokenizer.from_pretrained(place)
            self._model: Any = AutoModel.from_pretrained(
                place,
                local_files_only=True,
                trust_remote_code=False,
                use_safetensors=True,
                dtype=find_inference_type(),
            )
            if name == ADAPTED:
                merge_adapter(self._model)
            self._model.to("cuda" if cuda else "cpu").eval()
        self.name = name

    @property
    def mask_token(self) -> str:
        """What stands for a word to be guessed; "" where it was not trained to."""
        return str(self._tokenizer.mask_token or "")

    @property
    def layers(self) -> int:
        """How many layers it has; with the token embeddings, it has states of one more."""
        return int(self._model.config.num_hidden_layers)

    @property
    def dimension(self) -> int:
        """Length of a state."""
        return int(self._model.config.hidden_size)

    def tokenize(
        self, texts: Sequence[str], prompt: str, max_length: int
    ) -> list[list[int]]:
        """The tokens of each text in the prompt.

        Of a text that is too long, its end is cut off; the prompt stays whole.

        Raises:
            InputError: the prompt alone is too long.
        """
        most = min(max_length, self._most_tokens())
        whole = put_in_prompt(self._tokenizer, texts, prompt, most)
        found = self._tokenizer(whole, truncation=True, max_length=most)["input_ids"]
        # A tokenizer without a sign for the beginning makes nothing of an empty text.
        nothing = [self._pad]
        return [ids or nothing for ids in found]

    def find_masks(self, tokens: Sequence[Sequence[int]]) -> torch.Tensor:
        """Which of the tokens [n, most] are masks: 1 there, else 0.

        Raises:
            InputError: a text has none.
        """
        import torch

        found = torch.zeros(len(tokens), max(map(len, tokens)), dtype=torch.int64)
        for row, ids in enumerate(tokens):
            found[row, : len(ids)] = torch.tensor(ids) == self._tokenizer.mask_token_id
            if not found[row].any():
                raise InputError(
                    f"encoder.pooling: the tokenizer of {self.name} makes no mask of "
                    f"{self.mask_token} behind a text, so there is none to take. Give mean or last."
                )
        return found.to(self._model.device)

    def states(
        self, tokens: Sequence[Sequence[int]]
    ) -> tuple[tuple[torch.Tensor, ...], torch.Tensor]:
        """The states of all layers, in one pass, and which of them are of tokens.

        The states are [n, most, d] each: of the token embeddings, and of what comes out of each
        layer; the mask [n, most] is 1 at tokens. Padding stands at the end, whatever side the
        tokenizer has it on: no token of a causal model sees it there, and positions count from
        the text's own beginning.
        """
        import torch

        most = max(map(len, tokens))
        ids = torch.full((len(tokens), most), self._pad)
        mask = torch.zeros_like(ids)
        for row, found in enumerate(tokens):
            ids[row, : len(found)] = torch.tensor(found)
            mask[row, : len(found)] = 1
        device = self._model.device
        ids, mask = ids.to(device), mask.to(device)
        with torch.inference_mode():
            out = self._model(
                input_ids=ids, attention_mask=mask, output_hidden_states=True
            )
        return out.hidden_states, mask

    @property
    def _pad(self) -> int:
        known = (self._tokenizer.pad_token_id, self._tokenizer.eos_token_id, 0)
        return next(one for one in known if one is not None)

    def _most_tokens(self) -> int:
        """How many the model reads; where positions are relative, any number."""
        config = self._model.config
        positions = getattr(config, "max_position_embeddings", None) or 2**31
        # RoBERTa's positions begin behind that of padding, of which it has one, too.
        behind = (config.pad_token_id or 0) + 1 if _counts_padding(config) else 0
        return int(min(self._tokenizer.model_max_length, positions - behind))


def read_language_model(name: str, layer: int) -> LanguageModel:
    """The model of a name or a folder, which has the layer that is asked for.

    Raises:
        InputError: there is no such model or layer, or it can't be had or read.
    """
    model = LanguageModel(name)
    if not -model.layers - 1 <= layer <= model.layers:
        raise InputError(
            f"encoder.layer: {name} has {model.layers} layers, and none of the number {layer}. "
            f"Give 0 for the token embeddings, or up to {model.layers}; -1 is the last."
        )
    return model


def _find_transformer(folder: Path) -> Path:
    """The folder itself, or where sentence-transformers once put the transformer in it."""
    inner = folder / "0_Transformer"
    return inner if inner.is_dir() else folder


def _counts_padding(config: Any) -> bool:
    return config.model_type in ("roberta", "xlm-roberta", "camembert", "mpnet")
