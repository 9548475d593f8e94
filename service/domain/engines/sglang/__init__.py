"""SGLang: a share of what was free before loading goes to weights and caches, the rest to its passes and graphs."""

from service.domain.engines.sglang.policy import SglangEngine, from_facts

__all__ = ["SglangEngine", "from_facts"]
