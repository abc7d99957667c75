"""Which parts of a rewritten lock file become part of the pull request."""

import subprocess
import tomllib
from pathlib import Path

import pytest

from cve_fixer import lock_blocks
from cve_fixer.model import CannotFix
from cve_fixer.python import fake_python, poetry_lock, static_metadata, uv_lock

UV_OLD = """\
version = 1
requires-python = ">=3.9"

[[package]]
name = "demo"
source = { editable = "." }
dependencies = [
    { name = "urllib3" },
]

[package.metadata]
requires-dist = [{ name = "urllib3" }]

[[package]]
name = "six"
version = "1.16.0"
source = { registry = "https://registry.example/simple" }
sdist = { url = "https://registry.example/six.tar.gz", hash = "sha256:1" }

[[package]]
name = "urllib3"
version = "2.0.4"
source = { registry = "https://registry.example/simple" }
sdist = { url = "https://registry.example/old.tar.gz", hash = "sha256:2", size = 5 }
"""
UV_NEW = """\
version = 1
revision = 5
requires-python = ">=3.9"

[[package]]
name = "demo"
version = "0"
source = { editable = "." }
dependencies = [
    { name = "urllib3" },
]

[package.metadata]
requires-dist = [{ name = "urllib3" }]

[[package]]
name = "six"
version = "1.16.0"
source = { registry = "https://registry.example/simple" }
sdist = { url = "https://registry.example/six.tar.gz", hash = "sha256:1", size = 9, upload-time = "2023" }

[[package]]
name = "urllib3"
version = "2.0.6"
source = { registry = "https://registry.example/simple" }
sdist = { url = "https://registry.example/new.tar.gz", hash = "sha256:3", size = 7, upload-time = "2023" }
"""  # noqa: E501 - as the tool writes it
POETRY_OLD = """\
# by Poetry 1.8

[[package]]
name = "six"
version = "1.16.0"
description = "Old words"
optional = false
python-versions = "*"
files = [
    {file = "six.whl", hash = "sha256:1"},
]

[[package]]
name = "urllib3"
version = "1.26.5"
description = "HTTP"
optional = false
python-versions = "*"
files = []

[metadata]
lock-version = "2.0"
python-versions = "^3.9"
content-hash = "old"
"""
POETRY_NEW = """\
# by Poetry 2.5

[[package]]
name = "six"
version = "1.16.0"
description = "New words"
optional = false
python-versions = "*"
groups = ["main"]
files = []

[package.source]
type = "legacy"
url = "https://registry.example/simple"
reference = "agentjobs-registry"

[[package]]
name = "urllib3"
version = "1.26.17"
description = "HTTP"
optional = false
python-versions = "*"
groups = ["main"]
markers = "os_name == 'nt'"
files = []

[package.extras]
socks = ["PySocks"]

[package.source]
type = "legacy"
url = "https://registry.example/simple"
reference = "agentjobs-registry"

[metadata]
lock-version = "2.1"
python-versions = "^3.9"
content-hash = "new"
"""


def test_a_uv_lock_keeps_its_revision_and_every_unchanged_package() -> None:
    expected = UV_OLD.replace("2.0.4", "2.0.6").replace("old.tar", "new.tar")
    expected = expected.replace("sha256:2", "sha256:3").replace("size = 5", "size = 7")
    assert uv_lock.merge(UV_OLD, UV_NEW) == expected


def test_a_dynamic_version_is_omitted_even_if_the_old_text_is_not_kept() -> None:
    whole = uv_lock.merge(UV_OLD, UV_NEW, keeps_known=False)
    assert whole == UV_NEW.replace('name = "demo"\nversion = "0"\n', 'name = "demo"\n')


def test_a_poetry_lock_keeps_its_format_and_generator_and_gets_the_projects_hash() -> None:
    moved = POETRY_OLD.replace("1.26.5", "1.26.17").replace('"old"', '"new"')
    extras = 'files = []\n\n[package.extras]\nsocks = ["PySocks"]\n'
    assert poetry_lock.merge(POETRY_OLD, POETRY_NEW) == moved.replace("files = []\n", extras)


def test_other_changed_packages_are_named() -> None:
    other = UV_NEW.replace('"six"', '"seven"')
    assert lock_blocks.describe_other_changes(UV_OLD, other, "urllib3") == [
        "Also changed: `demo` None → 0, `seven` (new) → 1.16.0, `six` 1.16.0 → (removed)."
    ]


def ask(python: str, code: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, check=False)


def test_the_fake_python_reports_the_projects_version_and_builds_nothing(tmp_path: Path) -> None:
    python = fake_python.create_python(">=3.27.4", tmp_path)
    question = "get_interpreter_info = 1; import sys, platform; print(sys.version_info.minor)"
    assert ask(python, f"{question}; print(sys.executable)").stdout == f"27\n{python}\n"
    build = ask(python, "import setuptools.build_meta")
    assert (build.returncode, build.stderr) == (1, "nothing is built here\n")


def test_metadata_from_the_lock_file_replaces_a_build_and_is_removed_afterwards(
    tmp_path: Path,
) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_text('[project]\nname = "demo"\ndynamic = ["version"]\n')
    static_metadata.make_static(path)
    assert static_metadata.add_known_metadata(path, UV_OLD)
    settings = tomllib.loads(path.read_text())
    assert settings["project"] == {"name": "demo", "version": "0"}
    assert [entry["name"] for entry in settings["tool"]["uv"]["dependency-metadata"]] == [
        "six",
        "urllib3",
    ]
    metadata = '[[manifest.dependency-metadata]]\nname = "six"\nversion = "1.16.0"'
    written = UV_OLD.replace("\n\n[[package]]", f"\n\n{metadata}\n\n[[package]]", 1)
    assert static_metadata.remove_known_metadata(written) == (UV_OLD, metadata)
    checked = static_metadata.add_static_versions(UV_OLD, metadata)
    assert checked == written.replace('"demo"\n', '"demo"\nversion = "0"\n', 1)


def test_dynamic_dependencies_are_not_fixed(tmp_path: Path) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_text('[project]\nname = "demo"\ndynamic = ["dependencies"]\n')
    with pytest.raises(CannotFix, match="only its code knows"):
        static_metadata.make_static(path)
