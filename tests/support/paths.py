"""Directories of the checkout that tests read."""

import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[2]
PARTS = ("runtime", "dependencies", "worker", "kubernetes", "service")
# The directories with the packages of the product.
SOURCES = tuple(PROJECT / part / "src" for part in PARTS)
SERVICE = PROJECT / "service" / "src" / "agentjobs"
_SERVICE_PROJECT = PROJECT / "service" / "pyproject.toml"
VERSION: str = tomllib.loads(_SERVICE_PROJECT.read_text())["project"]["version"]
DATA = PROJECT / "tests" / "data"
# Node.js and npm of the development environment, which the Makefile links there.
NODE_BIN = PROJECT / ".venv" / "node"
