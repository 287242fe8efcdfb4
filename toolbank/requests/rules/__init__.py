"""Requests written from the reference's own words, with no model at all.

This is not a language model. It knows nothing of an API but what its reference says, and of the
world but a glossary of technical English in plain words (`glossary.txt`: statistics, matrices,
text, dates, tables, files, servers ...) and some everyday English (`lexicon.txt`). Both hold
general English and no API's names.

How it writes:

1. `profile` reads each tool's reference as phrases (`english`): the summary, the description, what
   other tools' see-also lists say of the tool, notes and returns become things to do ("sort ..."),
   things wanted ("the running total of ...") and questions ("whether ..."); facts are kept in mind,
   parameters' meanings become choices. Sentences with code or coined names in them are left out.
   It also finds the glossary's terms that the tool is about, unless it is an operation of a service
   (HTTP, MCP, or a function without a module), where "place" is no term: those stay in their own words.
2. `related`, unless the recipe names another sampling, samples one tool from shuffles without
   replacement, so that every tool is offered equally often, and others related to it (see-also
   links, shared types, same module, similar words); see `toolbank.requests.write.sampling`.
3. `writer` picks two to five tools of the offer that belong together, or declines; `wording` puts
   concrete data in place of arrays and plain words in place of terms; the draft has a step a
   sentence.
4. `steps` merges the draft's steps into one request.

What that costs: the requests are stiffer than people's; where tools chain is a guess, and one
step's data need not suit the next; two tools whose references say the same are asked for in the
same words; what neither the reference nor the glossary says in plain words stays in the reference's
jargon. A retriever trained on them beats descriptions by a few points of Recall@5; one trained on
as many requests of a language model does far better (see benchmarks/rules_bank.py).
"""
