"""Repository names in paths: two segments, or more for nested groups."""

from starlette.convertors import Convertor, register_url_convertor

# The placeholder in a route's path.
REPO = "{full_name:repo}"


class _FullName(Convertor[str]):
    regex = "[^/]+(?:/[^/]+)+"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


def register_repo_convertor() -> None:
    """Call before creating the first route with a repository name."""
    register_url_convertor("repo", _FullName())
