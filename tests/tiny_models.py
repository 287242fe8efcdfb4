"""Tiny encoders with random weights, of every architecture that matters, made in memory."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

Kind = Literal["bert", "minilm", "deberta", "e5"]
KINDS: tuple[Kind, ...] = ("bert", "minilm", "deberta", "e5")

_WORDS = """
a about again all and any are at away back before big book bring buy can car city close cold
colour come cost day degrees delete dinner do does door down drive dry email end every far find
fly for forecast from garden get give go heat hello house how i in into is it jazz lawn light
look mail make me mean money music my name new next noise of on open or order out package paint
parcel park play please price put quiet rain read refund remove reply road room rose send
shipment show side sing small song sort stop sum sun table tell that the them then there this
time to tomorrow track travel turn up valve walk want warm was water we weather week what when
where which who why will with word work write yard year you
"""
_SPECIAL = {
    "wordpiece": {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]"},
    "unigram": {"pad": "<pad>", "unk": "<unk>", "cls": "<s>", "sep": "</s>"},
}


def tiny_encoder(
    folder: Path,
    kind: Kind = "minilm",
    dropout: float = 0.1,
    words: Iterable[str] = (),
    layers: int = 1,
) -> Path:
    """Write a sentence encoder with `layers` of 32, mean pooling, and random weights.

    The same each time. Both `SentenceTransformer(folder)` and `AutoModel.from_pretrained(folder)`
    read it. "bert" and "minilm" are BERTs with absolute positions and token types, "deberta" is
    DeBERTa-v3 with relative ones, "e5" is multilingual E5's XLM-RoBERTa. `words` join the
    vocabulary; every other text is spelt by its letters.
    """
    import torch
    from transformers import AutoConfig, AutoModel

    form = "wordpiece" if kind in ("bert", "minilm") else "unigram"
    tokens = tiny_tokenizer(form, words)
    tokens.save_pretrained(folder)
    settings = {
        "vocab_size": len(tokens),
        "hidden_size": 32,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "max_position_embeddings": 130,
        "hidden_dropout_prob": dropout,
        "attention_probs_dropout_prob": dropout,
        "pad_token_id": tokens.pad_token_id,
    }
    relative = {
        "relative_attention": True,
        "position_buckets": 16,
        "norm_rel_ebd": "layer_norm",
        "share_att_key": True,
        "pos_att_type": "p2c|c2p",
        "position_biased_input": False,
        "type_vocab_size": 0,
        "pooler_dropout": 0,
        "pooler_hidden_size": 32,
    }
    model_type, more = {
        "bert": ("bert", {}),
        "minilm": ("bert", {"num_attention_heads": 2}),
        "deberta": ("deberta-v2", relative),
        "e5": ("xlm-roberta", {"type_vocab_size": 1}),
    }[kind]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = AutoConfig.for_model(model_type, **{**settings, **more})
        AutoModel.from_config(config).save_pretrained(folder)
    _write_sentence_files(folder)
    return folder


Other = Literal["static", "t5", "qwen", "no pad token"]
OTHERS: tuple[Other, ...] = ("static", "t5", "qwen", "no pad token")


def tiny_other(folder: Path, kind: Other, **settings) -> Path:
    """Write a sentence-transformers model that is no encoder of BERT's kind, of width 32.

    "static" has a row for each token, "t5" is T5's encoder, "qwen" is a decoder that pads on the
    left and takes the last token, and "no pad token" a Llama without one. `settings` go into
    SentenceTransformer.
    """
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer import modules
    from transformers import AutoConfig, AutoModel, T5EncoderModel

    tokens = tiny_tokenizer("unigram")
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    shape |= {"intermediate_size": 64, "num_key_value_heads": 2, "head_dim": 8}
    model_type, pooling = "llama", "mean"
    if kind == "t5":
        shape = {"d_model": 32, "d_kv": 16, "d_ff": 32, "num_layers": 1, "num_heads": 2}
        model_type = "t5"
    elif kind == "qwen":
        model_type, pooling = "qwen3", "lasttoken"
        tokens.padding_side = "left"
    elif kind == "no pad token":
        tokens.pad_token = None
    with torch.random.fork_rng():
        torch.manual_seed(0)
        if kind == "static":
            parts = [modules.StaticEmbedding(tokens, embedding_dim=32)]
        else:
            config = AutoConfig.for_model(model_type, vocab_size=len(tokens), **shape)
            make = T5EncoderModel if kind == "t5" else AutoModel.from_config
            make(config).save_pretrained(folder / "body")
            tokens.save_pretrained(folder / "body")
            body = modules.Transformer(str(folder / "body"))
            parts = [body, modules.Pooling(32, pooling)]
    model = SentenceTransformer(modules=parts, **settings)
    model.save_pretrained(str(folder / "model"), create_model_card=False)
    return folder / "model"


def tiny_tokenizer(form: Literal["wordpiece", "unigram"], words: Iterable[str] = ()):
    """Some English words, and letters for all others; `form` says how special tokens look."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast

    special = _SPECIAL[form]
    letters = "abcdefghijklmnopqrstuvwxyz0123456789.,:;!?'\"-_()/"
    known = dict.fromkeys(
        [*special.values(), "[MASK]", *_WORDS.split(), *words, *letters]
    )
    pieces = [*known, *(f"##{letter}" for letter in letters)]
    vocabulary = {piece: place for place, piece in enumerate(dict.fromkeys(pieces))}
    fast = Tokenizer(models.WordPiece(vocabulary, unk_token=special["unk"]))
    fast.normalizer = normalizers.BertNormalizer(lowercase=True)
    fast.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    fast.decoder = decoders.WordPiece()
    first, last = special["cls"], special["sep"]
    fast.post_processor = TemplateProcessing(
        single=f"{first} $A {last}",
        pair=f"{first} $A {last} $B:1 {last}:1",
        special_tokens=[(first, vocabulary[first]), (last, vocabulary[last])],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=fast,
        model_max_length=128,
        mask_token="[MASK]",
        **{f"{role}_token": token for role, token in special.items()},
    )


def _write_sentence_files(folder: Path) -> None:
    package = "sentence_transformers.sentence_transformer.modules"
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": f"{package}.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": f"{package}.Pooling"},
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "sentence_bert_config.json").write_text(
        json.dumps({"max_seq_length": 128, "do_lower_case": False})
    )
    (folder / "1_Pooling").mkdir(exist_ok=True)
    (folder / "1_Pooling" / "config.json").write_text(
        json.dumps({"word_embedding_dimension": 32, "pooling_mode_mean_tokens": True})
    )
