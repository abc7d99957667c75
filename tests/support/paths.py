"""Directories of the checkout that tests read."""

from pathlib import Path

PROJECT = Path(__file__).parents[2]
DATA = PROJECT / "tests" / "data"
# Node.js and npm of the development environment, which the Makefile links there.
NODE_BIN = PROJECT / ".venv" / "node"
