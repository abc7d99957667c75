"""Sizes as pages show them."""

import pytest

from agentjobs.web.dashboard.text_filters import size


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (1_023, "1,023 bytes"),
        (1_536, "1.5 KiB"),
        (5 * 2**20, "5.0 MiB"),
        (2**40 * 3, "3,072.0 GiB"),
    ],
)
def test_a_size_has_the_largest_unit_up_to_gib(number: int, text: str) -> None:
    assert size(number) == text
