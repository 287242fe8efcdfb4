"""A model that goes by the words that a request shares with what is said of a tool."""

import re

from tests.servers.chat import Answer


def shown(call):
    listed = call.prompt.partition("<tools>\n")[2].partition("\n</tools>")[0]
    lines = (line.partition(". ") for line in listed.splitlines())
    return {int(number): said for number, _, said in lines}


def asked(call):
    return call.prompt.partition("<request>\n")[2].partition("\n</request>")[0]


def answer_by_words(call):
    """The tools with most words of the request first; that of the music is left out."""
    words = set(re.findall(r"\w+", asked(call).lower()))

    def key(item):
        return -len(words & set(re.findall(r"\w+", item[1].lower()))), item[1]

    tools = sorted(shown(call).items(), key=key)
    chosen = [number for number, said in tools if "song" not in said]
    return Answer.json({"tools": chosen})
