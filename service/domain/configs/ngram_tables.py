"""Tables of hashed n-grams, which have as many rows as the primes that each of their heads counts by."""

from __future__ import annotations

from functools import lru_cache

from service.domain.units import ceil_div

# Bases that tell every number below 3,215,031,751 (Jaeschke 1993).
_WITNESSES = (2, 3, 5, 7)


@lru_cache(maxsize=64)
def rows(least: int, heads: int, skipped: int, multiple: int) -> int:
    """The sum of `heads` primes from `least` on, behind the `skipped` first ones, up to the next multiple."""
    total, number = 0, least - 1
    for head in range(skipped + heads):
        number += 1
        while not _is_prime(number):
            number += 1
        total += number if head >= skipped else 0
    return multiple * ceil_div(total, multiple)


def _is_prime(number: int) -> bool:
    if number == 1 or any(number % prime == 0 for prime in _WITNESSES):
        return number in _WITNESSES
    odd, halvings = number - 1, 0
    while odd % 2 == 0:
        odd, halvings = odd // 2, halvings + 1
    return all(_passes(number, pow(base, odd, number), halvings) for base in _WITNESSES)


def _passes(number: int, power: int, halvings: int) -> bool:
    """Miller and Rabin's test by one base."""
    if power in {1, number - 1}:
        return True
    for _ in range(halvings - 1):
        power = power * power % number
        if power == number - 1:
            return True
    return False
