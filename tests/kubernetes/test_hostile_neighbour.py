"""Attacks on availability by agents in pods, beside an ordinary tenant."""

from tests.hostile.test_neighbour import *  # noqa: F403 - the same tests
