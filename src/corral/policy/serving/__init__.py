"""Decisions about requests for loaded models: which replica answers, when one is left alone, whose turn it is."""
