"""Encode texts by the hidden states of a language model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from toolbank.encoders.base import Encoder
from toolbank.encoders.config import EncoderConfig
from toolbank.encoders.location import ADAPTED
from toolbank.encoders.model import find_model, reading_model
from toolbank.papers.experiment import TEXT, Pooling, read_frozen
from toolbank.papers.layers import LayersConfig
from toolbank.system.errors import InputError

if TYPE_CHECKING:
    import torch


def pool(states: torch.Tensor, mask: torch.Tensor, pooling: Pooling) -> torch.Tensor:
    """Pool the states of texts into float32 vectors [n, d]: their sum, mean, or last state.

    `states` is [n, tokens, d]; `mask` [n, tokens] is 1 at tokens that count and 0 elsewhere, such as
    at padding on either side. Every text has a token that counts.
    """
    import torch

    if pooling in ("last", "mask"):
        places = torch.arange(mask.shape[1], device=mask.device)
        last = torch.where(mask > 0, places, -1).argmax(dim=1)
        return states[torch.arange(len(states), device=mask.device), last].float()
    # States at padding are arbitrary, and may be infinite in half precision.
    kept = states.float().masked_fill(mask[..., None] == 0, 0.0)
    total = kept.sum(dim=1)
    return total if pooling == "sum" else total / mask.sum(dim=1, keepdim=True)


def unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Scale vectors [n, d] to length one."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, 1e-12), dtype=np.float32)


def put_in_prompt(
    tokenizer: Any, texts: Sequence[str], prompt: str, most: int
) -> list[str]:
    """Put each text into the prompt, and truncate texts so that `most` tokens suffice.

    Raises:
        InputError: the prompt alone is too long.
    """
    if prompt == TEXT:
        return list(texts)
    room = most - len(tokenizer(prompt.replace(TEXT, ""))["input_ids"])
    if room < 1:
        raise InputError(
            f"encoder.prompt: it alone is longer than the {most} tokens that are read. "
            "Shorten it, or raise max_length if the model reads more."
        )
    filled = [prompt.replace(TEXT, text) for text in texts]
    lengths = map(len, tokenizer(filled, verbose=False)["input_ids"])
    return [
        one if length <= most else _shorten(tokenizer, text, prompt, room, most)
        for one, text, length in zip(filled, texts, lengths, strict=True)
    ]


def _shorten(tokenizer: Any, text: str, prompt: str, room: int, most: int) -> str:
    """The prompt with the beginning of a text.

    Only the whole shows how many tokens the text takes: tokens merge at its ends, and half a
    character takes more of them than a whole one.
    """
    ids = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
    while True:
        part = tokenizer.decode(ids[:room]).rstrip("\ufffd")
        filled = prompt.replace(TEXT, part)
        over = len(tokenizer(filled, verbose=False)["input_ids"]) - most
        if over <= 0 or not part:
            return filled
        room = max(0, room - over)


_REMEDY = (
    "A language model needs config.json, a tokenizer, and weights as safetensors; pickled weights "
    "and code of a model are not read."
)


class HeadlessModel:
    """A frozen language model without its head; on a GPU, if there is one, in half precision."""

    def __init__(self, name: str) -> None:
        folder = find_model(name)
        # sentence-transformers used to put the transformer into a folder of its own.
        inner = folder / "0_Transformer"
        with reading_model(folder, _REMEDY):
            self._model, self._tokenizer = read_frozen(
                inner if inner.is_dir() else folder,
                "AutoModel",
                is_adapted=name == ADAPTED,
            )
        self.name = name

    @property
    def mask_token(self) -> str:
        """The token for a word to predict; "" if the model is not a masked one."""
        return str(self._tokenizer.mask_token or "")

    @property
    def layers(self) -> int:
        """The number of layers; there is one more state, that of the token embeddings."""
        return int(self._model.config.num_hidden_layers)

    @property
    def dimension(self) -> int:
        """The length of a state."""
        return int(self._model.config.hidden_size)

    def tokenize(
        self, texts: Sequence[str], prompt: str, max_length: int
    ) -> list[list[int]]:
        """Tokenize each text in the prompt; the prompt stays whole if a text is truncated.

        Raises:
            InputError: the prompt alone is too long.
        """
        most = min(max_length, self._most_tokens())
        whole = put_in_prompt(self._tokenizer, texts, prompt, most)
        found = self._tokenizer(whole, truncation=True, max_length=most)["input_ids"]
        # Without a token for the beginning, an empty text has no tokens.
        nothing = [self._pad]
        return [ids or nothing for ids in found]

    def find_masks(self, tokens: Sequence[Sequence[int]]) -> torch.Tensor:
        """Mark the masks among the tokens [n, most] by 1, others by 0.

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
                    f"{self.mask_token} after a text. Use mean or last."
                )
        return found.to(self._model.device)

    def states(
        self, tokens: Sequence[Sequence[int]]
    ) -> tuple[tuple[torch.Tensor, ...], torch.Tensor]:
        """Compute the states of all layers in one pass, and the mask of the tokens.

        The states are [n, most, d] each: those of the token embeddings, and the output of each layer.
        The mask [n, most] is 1 at tokens. Padding is always on the right, where no token of a causal
        model sees it and positions start with the text.
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
        """The tokens that the model reads; unlimited if positions are relative."""
        config = self._model.config
        positions = getattr(config, "max_position_embeddings", None) or 2**31
        is_padded = config.model_type in _PADDED_POSITIONS
        behind = (config.pad_token_id or 0) + 1 if is_padded else 0
        return int(min(self._tokenizer.model_max_length, positions - behind))


# Their positions start after that of padding.
_PADDED_POSITIONS = ("roberta", "xlm-roberta", "camembert", "mpnet")


class LayersEncoder(Encoder):
    """The states of one layer, pooled over the tokens of a text."""

    config: LayersConfig

    def __init__(self, model: HeadlessModel, config: LayersConfig) -> None:
        super().__init__(config)
        self._model = model

    @classmethod
    def read(cls, name: str, config: EncoderConfig) -> Self:
        """Read the model of a name or a folder.

        Raises:
            InputError: there is none, or it lacks the configured layer or a mask.
        """
        assert isinstance(config, LayersConfig)
        model = HeadlessModel(name)
        if not -model.layers - 1 <= config.layer <= model.layers:
            raise InputError(
                f"encoder.layer: {name} has no layer {config.layer}. Give 0 for the token "
                f"embeddings, up to {model.layers} for a layer, or -1 for the last."
            )
        if config.pooling == "mask" and not model.mask_token:
            raise InputError(
                f"encoder.pooling: {name} was not trained to predict masks. Use mean or last."
            )
        return cls(model, config)

    @property
    def dimension(self) -> int:
        """The length of a vector."""
        return self._model.dimension

    def embed(self, texts: list[str]) -> NDArray[np.float32]:
        """Embed texts in the prompt: unit vectors [n, dimension].

        Raises:
            InputError: the prompt alone is too long, or the mask of a text is missing.
        """
        config = self.config
        is_mask = config.pooling == "mask"
        prompt = (
            f"{config.prompt} {self._model.mask_token}" if is_mask else config.prompt
        )
        tokens = self._model.tokenize(texts, prompt, config.max_length)
        states, mask = self._model.states(tokens)
        if is_mask:
            mask = self._model.find_masks(tokens)
        return unit(pool(states[config.layer], mask, config.pooling).cpu().numpy())
