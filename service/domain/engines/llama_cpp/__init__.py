"""llama.cpp: nothing is budgeted, the cells of a context are allocated as asked on the devices that hold its layers."""

from service.domain.engines.llama_cpp.policy import LlamaCppEngine, from_facts

__all__ = ["LlamaCppEngine", "from_facts"]
