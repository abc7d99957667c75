"""Which language a file is counted as."""

import pytest

from agentjobs_dependencies.languages import detect_language


@pytest.mark.parametrize(
    ("path", "language"),
    [
        (b"web/style.css", "CSS"),
        (b"web/theme.scss", "SCSS"),
        (b"web/theme.SASS", "Sass"),
        (b"web/theme.less", "Less"),
        (b"src/Makefile", "Makefile"),
        (b"README.md", None),
        (b"data.json", None),
        (b".less", None),
        (b"node_modules/a/index.js", None),
        (b"vendor/a/a.go", None),
    ],
)
def test_style_sheets_have_languages_of_their_own_and_third_party_code_has_none(
    path: bytes, language: str | None
) -> None:
    assert detect_language(path) == language
