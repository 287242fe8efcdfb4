from hypothesis import given
from hypothesis import strategies as st

from toolbank.training.text import batches_by_length, pad, pad_id, tokenise

IDS = st.lists(st.lists(st.integers(1, 99), min_size=1), min_size=1, max_size=9)


@given(IDS)
def test_a_batch_is_as_wide_as_its_longest_text(ids):
    batch = pad(ids, 0)
    width = max(map(len, ids))
    for row, found, mask in zip(
        ids, batch["input_ids"].tolist(), batch["attention_mask"].tolist(), strict=True
    ):
        assert found == row + [0] * (width - len(row))
        assert mask == [1] * len(row) + [0] * (width - len(row))


@given(st.lists(st.integers(0, 50)), st.integers(1, 8))
def test_every_text_is_in_one_batch_the_longest_first(lengths, size):
    batches = list(batches_by_length(lengths, size))
    places = [place for batch in batches for place in batch]
    assert sorted(places) == list(range(len(lengths)))
    assert [lengths[place] for place in places] == sorted(lengths, reverse=True)
    assert all(len(batch) == size for batch in batches[:-1])


def test_tokens_are_cut_to_a_length(tmp_path):
    from transformers import AutoTokenizer

    from tests.tiny_models import tiny_encoder

    tokenizer = AutoTokenizer.from_pretrained(tiny_encoder(tmp_path))
    short, long = tokenise(tokenizer, ["open the door", "open the door " * 9], 8)
    assert len(short) == 5 and len(long) == 8
    assert short[-1] == long[-1] == tokenizer.sep_token_id
    assert tokenise(tokenizer, [], 8) == []
    assert pad_id(tokenizer) == tokenizer.pad_token_id
