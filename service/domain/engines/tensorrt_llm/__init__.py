"""TensorRT-LLM: a share of what is free after loading and a profiled pass goes to the cache."""

from service.domain.engines.tensorrt_llm.policy import TensorrtLlmEngine, from_facts

__all__ = ["TensorrtLlmEngine", "from_facts"]
