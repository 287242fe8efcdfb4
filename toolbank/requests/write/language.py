"""The language of a bank's requests: ask for it, and check that texts are in it."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from toolbank.system.extras import naming_extras

if TYPE_CHECKING:
    from lingua import LanguageDetector

    from toolbank.llm.chat import ChatRequest

ENGLISH = "en"
# The languages that lingua distinguishes, by their ISO 639-1 codes.
_NAMES = """
    af Afrikaans ar Arabic az Azerbaijani be Belarusian bg Bulgarian bn Bengali bs Bosnian
    ca Catalan cs Czech cy Welsh da Danish de German el Greek en English eo Esperanto es Spanish
    et Estonian eu Basque fa Persian fi Finnish fr French ga Irish gu Gujarati he Hebrew hi Hindi
    hr Croatian hu Hungarian hy Armenian id Indonesian is Icelandic it Italian ja Japanese
    ka Georgian kk Kazakh ko Korean la Latin lg Ganda lt Lithuanian lv Latvian mi Maori
    mk Macedonian mn Mongolian mr Marathi ms Malay nb Bokmal nl Dutch nn Nynorsk pa Punjabi
    pl Polish pt Portuguese ro Romanian ru Russian sk Slovak sl Slovene sn Shona so Somali
    sq Albanian sr Serbian st Sotho sv Swedish sw Swahili ta Tamil te Telugu th Thai tl Tagalog
    tn Tswana tr Turkish ts Tsonga uk Ukrainian ur Urdu vi Vietnamese xh Xhosa yo Yoruba
    zh Chinese zu Zulu
"""
LANGUAGES = dict(re.findall(r"\b([a-z]{2}) (\w+)", _NAMES))
"""The names of all languages that can be checked, by their codes."""
# Texts of one are often taken for another.
_ALIKE = (
    *({"bs", "hr", "sr"}, {"da", "nb", "nn"}, {"id", "ms"}),
    *({"st", "tn"}, {"xh", "zu"}, {"cs", "sk"}),
)

# Of Thai, Lao, Burmese, Khmer, Japanese and Chinese, which are written without spaces.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u30ff\u3400-\u9fff]"
)
_LETTER = re.compile(r"[^\W\d_]")
_NOT_LATIN = re.compile(r"[^\W\d_\u0000-\u024f\u1e00-\u1eff]+")
# Quoted code, paths, names with a dot or an underscore, CamelCase, capitals, digits.
_CODE = re.compile(
    r"`[^`]*`|[!-~]*(?:[_/\\{}<>=@#]|\(\)|\.\w)[!-~]*|\w*[a-z][A-Z]\w*|\b[A-Z]{2,}\w*|\w*\d\w*",
    re.ASCII,
)
_FEWEST_TO_TELL = 5
# A text is in another language if that is so many times as likely; a short text, if that also has
# this probability.
_SURELY = 20
_SURELY_SHORT = 0.9
_FOREIGN_SHARE = 0.2


def ask_in_language(request: ChatRequest, language: str) -> ChatRequest:
    """Ask for the text of a request in a language, at the end of any prompt."""
    if language == ENGLISH:
        return request
    *before, last = request.messages
    name = LANGUAGES[language]
    added = (
        f"\n\n# Language\n\nAll of the above is in English. Write every request, and nothing else, in "
        f"{name}, as people write it whose language it is. Keys of the answer, names of tools and "
        "explanations stay as they are above."
    )
    content = last.content.rstrip() + added
    return replace(request, messages=(*before, replace(last, content=content)))


def count_words(text: str, language: str) -> int:
    """Count the words of a text; in languages without spaces, a word has two characters."""
    words = len(text.split())
    if language == ENGLISH or not (unspaced := len(_UNSPACED.findall(text))):
        return words
    return len(_UNSPACED.sub(" ", text).split()) + unspaced // 2


def keep_latin(text: str, language: str) -> str:
    """Put spaces for letters of other scripts, so that names next to them are found."""
    return text if language == ENGLISH else _NOT_LATIN.sub(" ", text)


def find_other_language(text: str, language: str) -> str:
    """Find the language of a text that is surely not in `language`; "" if there is none.

    Names of code are ignored, and Latin words in a text of another script. A text of fewer than 5
    words is given the benefit of the doubt.

    Raises:
        MissingLibraryError: lingua is not installed.
    """
    words = _CODE.sub(" ", text)
    foreign = sum(map(len, _NOT_LATIN.findall(words)))
    if foreign > _FOREIGN_SHARE * len(_LETTER.findall(words)):
        words = re.sub("[A-Za-z]+", " ", words)
    likely = {
        one.language.iso_code_639_1.name.lower(): one.value
        for one in _make_detector().compute_language_confidence_values(words)
    }
    best = max(likely, key=likely.__getitem__)
    own, most = likely[language], likely[best]
    is_short = count_words(words, language) < _FEWEST_TO_TELL
    is_alike = any({best, language} <= group for group in _ALIKE)
    # A short text in Japanese may have no kana.
    is_alike |= is_short and {best, language} == {"ja", "zh"}
    if (
        own * _SURELY >= most
        or is_alike
        or (is_short and own > 0 and most < _SURELY_SHORT)
    ):
        return ""
    return best


@cache
def _make_detector() -> LanguageDetector:
    with naming_extras("language"):
        from lingua import LanguageDetectorBuilder
    # The other mode needs 1 GB for hardly more.
    builder = LanguageDetectorBuilder.from_all_languages()
    return builder.with_low_accuracy_mode().build()
