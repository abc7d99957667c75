"""What a source distribution says about its requirements, without a build."""

import io
import tarfile
import zipfile

import pytest

from agentjobs_dependencies.fixes.python.sdist_metadata import read_requirements

REQUIRES = """\
six>=1.9

[:python_version < "3.8"]
importlib-metadata

[socks]
PySocks!=1.5.7

[socks:sys_platform == "win32"]
win-inet-pton
"""
EXPECTED = (
    "six>=1.9",
    'importlib-metadata ; (python_version < "3.8")',
    "PySocks!=1.5.7 ; extra == 'socks'",
    "win-inet-pton ; (sys_platform == \"win32\") and extra == 'socks'",
)


def tar(files: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"a-1/a.egg-info/requires.txt": REQUIRES}, EXPECTED),
        ({"a-1/src/a.egg-info/requires.txt": "b\n", "a-1/a.egg-info/PKG-INFO": ""}, ("b",)),
        ({"a-1/a.egg-info/PKG-INFO": "Name: a\n"}, ()),
        # Without setuptools' metadata, only setup.py knows.
        ({"a-1/PKG-INFO": "Name: a\n", "a-1/setup.py": "setup()\n"}, None),
        ({"a-1/tests/data/b.egg-info/requires.txt": "b\n"}, None),
    ],
)
def test_the_requirements_in_a_source_distribution(
    files: dict[str, str], expected: tuple[str, ...] | None
) -> None:
    assert read_requirements(tar(files)) == expected


def test_the_requirements_in_a_zip_archive() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a-1/a.egg-info/requires.txt", "b\n")
    assert read_requirements(buffer.getvalue(), is_zip=True) == ("b",)
