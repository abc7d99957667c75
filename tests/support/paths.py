"""Directories of the checkout that tests read."""

from pathlib import Path

PROJECT = Path(__file__).parents[2]
DATA = PROJECT / "tests" / "data"
