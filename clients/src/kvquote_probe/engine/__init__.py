"""Readers of running engines: what capacity they really have, by HTTP or from their start-up log. No torch needed."""
