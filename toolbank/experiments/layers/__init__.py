"""Hidden layers of language models at finding the contexts of questions, as LMTutor measures them."""
