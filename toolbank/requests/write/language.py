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
# The languages that lingua distinguishes: ISO 639-1, name, ISO 639-3 and script (ISO 15924).
_TABLE = """
    af Afrikaans afr-Latn ar Arabic ara-Arab az Azerbaijani aze-Latn be Belarusian bel-Cyrl
    bg Bulgarian bul-Cyrl bn Bengali ben-Beng bs Bosnian bos-Latn ca Catalan cat-Latn
    cs Czech ces-Latn cy Welsh cym-Latn da Danish dan-Latn de German deu-Latn
    el Greek ell-Grek en English eng-Latn eo Esperanto epo-Latn es Spanish spa-Latn
    et Estonian est-Latn eu Basque eus-Latn fa Persian fas-Arab fi Finnish fin-Latn
    fr French fra-Latn ga Irish gle-Latn gu Gujarati guj-Gujr he Hebrew heb-Hebr
    hi Hindi hin-Deva hr Croatian hrv-Latn hu Hungarian hun-Latn hy Armenian hye-Armn
    id Indonesian ind-Latn is Icelandic isl-Latn it Italian ita-Latn ja Japanese jpn-Jpan
    ka Georgian kat-Geor kk Kazakh kaz-Cyrl ko Korean kor-Hang la Latin lat-Latn
    lg Ganda lug-Latn lt Lithuanian lit-Latn lv Latvian lav-Latn mi Maori mri-Latn
    mk Macedonian mkd-Cyrl mn Mongolian mon-Cyrl mr Marathi mar-Deva ms Malay msa-Latn
    nb Bokmal nob-Latn nl Dutch nld-Latn nn Nynorsk nno-Latn pa Punjabi pan-Guru
    pl Polish pol-Latn pt Portuguese por-Latn ro Romanian ron-Latn ru Russian rus-Cyrl
    sk Slovak slk-Latn sl Slovene slv-Latn sn Shona sna-Latn so Somali som-Latn
    sq Albanian sqi-Latn sr Serbian srp-Cyrl st Sotho sot-Latn sv Swedish swe-Latn
    sw Swahili swa-Latn ta Tamil tam-Taml te Telugu tel-Telu th Thai tha-Thai
    tl Tagalog tgl-Latn tn Tswana tsn-Latn tr Turkish tur-Latn ts Tsonga tso-Latn
    uk Ukrainian ukr-Cyrl ur Urdu urd-Arab vi Vietnamese vie-Latn xh Xhosa xho-Latn
    yo Yoruba yor-Latn zh Chinese zho-Hans zu Zulu zul-Latn
"""
_ROWS = re.findall(r"(\w\w) (\w+) ([\w-]+)", _TABLE)
LANGUAGES = {code: name for code, name, _ in _ROWS}
"""The names of all languages that can be checked, by their codes."""
LANGUAGE_TAGS = {code: tag for code, _, tag in _ROWS}
"""Their ISO 639-3 codes with their scripts, such as deu-Latn, by their codes."""
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
