"""kvquote: quotes LLM-serving capacity for a model on a GPU."""

__version__ = "0.1.0"
