"""What a device has no arithmetic for, said beside an answer that is about memory all the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from service.domain.gpu import Gpu
    from service.domain.model import Model
    from service.domain.precision import CacheFormat, WeightFormat


def warn_of_types(
    gpu: Gpu | None, weights: WeightFormat, cache: CacheFormat, model: Model, warnings: list[str]
) -> None:
    """Say which of the types the device has no arithmetic for."""
    if gpu is None or not gpu.peaks:
        return
    if "bf16" in {weights.name, cache.name, model.compute_type} and not gpu.runs("bf16"):
        warnings.append(
            f"{gpu.name} does not compute in bf16; engines run such a model in fp16 there, of the same size."
        )
    for family, number in (("fp8", "fp8"), ("nvfp4", "fp4")):
        if cache.name.startswith(family) and not gpu.runs(number):
            warnings.append(f"{gpu.name} has no {number} arithmetic; engines may refuse a cache in {cache.name} there.")
