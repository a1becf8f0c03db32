"""Serves other APIs than chat completions: Anthropic's messages, OpenAI's responses, Ollama, reranking, speech, images.

A call that the model's engine supports itself (`serves` in its manifest) is relayed. Otherwise it is translated to a
chat where that is exact (`anthropic.py`, `responses.py`, `ollama.py`: pure), and a field that cannot be translated is
refused by its name. Every error has the caller's own envelope.

This package imports nothing: the process that translates large bodies loads the translations without the routes.
"""
