"""Use the language models of a running server: a chat in the terminal, and OpenAI's API."""
