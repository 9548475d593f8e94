"""kvquote-probe: measures what a GPU really holds and does, and uploads it to a kvquote service."""

__version__ = "0.1.0"
