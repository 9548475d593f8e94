"""Recurrent state of every published model in the data, in the types that engines keep it in."""

import pytest

from service.domain.cache.base import CacheKind
from service.domain.configs import read_config
from tests.domain.configs.published import Published, published_models


@pytest.mark.parametrize("published", published_models(), ids=lambda published: str(published.model))
def test_the_state_of_a_sequence_is_exact(published: Published) -> None:
    groups = [group for group in read_config(published.config).caches if group.spec.kind is CacheKind.RECURRENT]

    assert sum(len(group.layers) * group.spec.fixed_bytes for group in groups) == published.state_bytes
