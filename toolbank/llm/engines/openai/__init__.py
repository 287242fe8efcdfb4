"""Any OpenAI-compatible chat-completions endpoint, a local server included."""
