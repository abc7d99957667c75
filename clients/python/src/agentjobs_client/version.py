"""The version of this package, equal to the one in pyproject.toml."""

__version__ = "0.3.0"
