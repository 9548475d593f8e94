"""What the first question of a kind would import, imported ahead of it.

A server that has more than one worker does so before it forks them, so that they share it. One worker alone leaves it
to the questions: each kind takes a moment once, and what is never asked for takes no memory.
"""

from importlib import import_module
from typing import Final

from service.domain.configs import import_readers
from service.domain.holding import import_engines

LATER: Final = (
    "service.domain.commands.asking",
    "service.domain.log_answer",
    "service.domain.logs.reader",
    "service.domain.traffic_quote",
    "service.learning_timer",
)


def import_rest() -> None:
    """Import readers of configs, engines, command lines and logs, and what looks for something to learn."""
    import_readers()
    import_engines()
    for module in LATER:
        import_module(module)
