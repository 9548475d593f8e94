"""Whole bytes and tokens: the only places where this package rounds or divides up."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

GIB = 1 << 30
MAX_EXACT_INTEGER = (1 << 53) - 1
"""Largest integer that every JSON reader keeps exactly (RFC 8259 section 6)."""


def ceil_div(numerator: int, denominator: int) -> int:
    """Smallest integer not below numerator / denominator, for a positive denominator."""
    return -(-numerator // denominator)


def up(size: int, step: int) -> int:
    """The smallest multiple of a positive step that is not below a size."""
    return -(-size // step) * step


def down(size: int, step: int) -> int:
    """The largest multiple of a positive step that is not above a size."""
    return size // step * step


def whole(value: Fraction | float) -> int:
    """The one rounding rule: up to the next whole byte, since a part of a byte takes one."""
    return -int(-value // 1)


def exact_div(numerator: Fraction | int, denominator: int) -> Fraction | int:
    """The exact quotient, an integer wherever it is one: arithmetic with fractions takes many times as long."""
    quotient, rest = divmod(numerator, denominator)
    return Fraction(numerator) / denominator if rest else quotient


def ceil_bytes(bits: Fraction | int) -> int:
    """Whole bytes that so many bits take."""
    return -int(-bits // 8)


def portion(size: int, share: float) -> int:
    """Whole bytes of a share that stands for what is written of it, 0.9 for nine tenths; a part of a byte is left."""
    numerator, denominator = Decimal(str(share)).as_integer_ratio()
    return size * numerator // denominator


def exact(value: float) -> Fraction | int:
    """A number of the question as an exact rational, so that ratios of round figures stay round."""
    return int(value) if float(value).is_integer() else Fraction(value)
