"""Requests in other languages than English."""

import json
from random import Random

import pytest

from tests.commands.in_process import do
from tests.corpus_files import CORPUS
from tests.servers.chat import Answer, ChatServer
from tests.world import drafted, good_reply, polished, write_recipe
from toolbank.bank.records import Tool
from toolbank.requests.write.checks import TextChecker
from toolbank.requests.write.language import (
    LANGUAGE_TAGS,
    LANGUAGES,
    find_other_language,
)

NAMES = ("numpy.linalg.norm", "numpy.nan_to_num", "pandas.DataFrame", "shop.mean")
TOOLS = [Tool(name=name) for name in NAMES]
LANGUAGE_FILES = CORPUS / "languages"
# Whole sentences and hasty ones, with names of code that is not the bank's.
GERMAN = (LANGUAGE_FILES / "german.txt").read_text().splitlines()
# A text in each of some other languages.
OTHERS = json.loads((LANGUAGE_FILES / "one-each.json").read_text())


def check(text, language):
    return TextChecker(TOOLS, (), language).check(text, 3, 150)


def test_german_drafts_with_names_of_code_are_german_alone():
    for text in GERMAN:
        assert check(text, "de") is None
        for other in ("fr", "ja", "nl"):
            assert check(text, other).reason == "language", text
    # English is checked as it always was: of short texts, by their letters.
    long = [text for text in GERMAN if len(text.split()) > 11]
    assert {check(text, "en").reason for text in long} == {"not-english"}


@pytest.mark.parametrize("language", OTHERS)
def test_a_text_is_accepted_in_its_own_language_alone(language):
    for other in ("de", *OTHERS):
        rejection = check(OTHERS[language], other)
        assert (rejection is None) == (other == language), (language, other)
        if rejection and other != "en":
            assert rejection.reason == "language"
            assert LANGUAGES[language] in rejection.detail


@pytest.mark.parametrize(
    "text",
    [
        "Find me a free slot next week.",
        "Which customers have not paid since March?",
        "What will the weather be in Berlin tomorrow?",
        "unpaid invoices this week",
    ],
)
def test_short_english_is_in_no_german_bank(text):
    assert check(text, "de").reason == "language"


def test_names_of_the_bank_and_words_are_told_without_spaces_between_them():
    assert check("nan_to_numで欠損値を埋めてください", "ja").detail == "nan_to_num"
    assert check("numpy.linalg.normを計算してください", "ja").reason == "identifier"
    assert check("天気は", "ja").reason == "too-short"
    assert check("会議室予約変更", "ja") is None
    assert check("Объедини DataFrame по датам", "ru").reason == "identifier"


def test_what_has_no_word_of_a_language_is_left_to_the_other_checks():
    assert find_other_language("read_csv() numpy.mean 2024", "de") == ""


def test_the_languages_are_those_of_the_detector():
    lingua = pytest.importorskip("lingua")
    known = {
        one.iso_code_639_1.name.lower(): one.iso_code_639_3.name.lower()
        for one in lingua.Language.all()
    }
    assert {code: tag[:3] for code, tag in LANGUAGE_TAGS.items()} == known


def answer(call):
    """What a model writes that forgets now and then that it is asked for German."""
    assert call.prompt.count("in German") == 1
    random = Random(call.prompt)
    if random.random() < 0.3:
        return good_reply(call)
    texts = [f"{text} Nummer {random.randrange(10**6)}" for text in GERMAN]
    if call.asked_for:
        return dict(zip(call.keys, random.sample(texts, len(call.keys)), strict=True))
    if call.asks_polish:
        return polished(random.choice(texts))
    return drafted(call.offered[:2], random.choice(texts))


def test_a_german_bank_has_german_rows_and_says_so(tmp_path):
    recipe = write_recipe(tmp_path, model="m", queries=12)
    with ChatServer(lambda call: Answer.json(answer(call))) as server:
        settings = [f"generate.base_url={server.url}", "language=de", "asks={}"]
        sets = [part for one in settings for part in ("--set", one)]
        assert "German (de)" in do(tmp_path, "plan", recipe, *sets).stdout
        do(tmp_path, "asks", recipe, "--out", "run", *sets)
    bank, asks = (
        json.loads((tmp_path / f"run/bank/{name}.json").read_text())
        for name in ("bank", "asks")
    )
    assert bank["language"] == "de"
    for counts in (bank["counts"], asks["counts"]):
        assert set(counts["rejected"]) <= {"language", "near-duplicate"}
        assert counts["rejected"]["language"]
    do(tmp_path, "publish", "run", "--to", "card")
    assert "- de\n" in (tmp_path / "card/README.md").read_text()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (("language=tlh",), "de, el"),
        (("language=de", "generate.engine=rules"), "writes English only"),
        (("language=de", "asks.engine=rules"), "writes English only"),
    ],
)
def test_a_language_that_nobody_can_write_or_check_is_refused(tmp_path, settings, said):
    recipe = write_recipe(tmp_path, model="m")
    sets = [part for one in settings for part in ("--set", one)]
    assert said in do(tmp_path, "plan", recipe, *sets, code=2).stderr


def test_without_the_detector_a_plan_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr("toolbank.system.extras.find_spec", lambda name: None)
    recipe = write_recipe(tmp_path, model="m")
    done = do(tmp_path, "plan", recipe, "--set", "language=fr", code=2)
    assert "[languages]" in done.stderr
