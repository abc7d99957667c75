"""Names of repositories in addresses: two parts, or more where groups lie in groups."""

from starlette.convertors import Convertor, register_url_convertor

# As it stands in a place's path; whatever comes after it belongs to the page.
REPO = "{full_name:repo}"


class _FullName(Convertor[str]):
    regex = "[^/]+(?:/[^/]+)+"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


def register_repo_convertor() -> None:
    """Before the first route with such a name is made."""
    register_url_convertor("repo", _FullName())
