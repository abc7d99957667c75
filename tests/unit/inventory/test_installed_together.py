"""Which files of a commit are installed together. Pure functions."""

import pytest

from agentjobs.inventory.manifests import read
from agentjobs.inventory.manifests.installed_together import (
    MAX_GROUPS,
    find_installed_together,
    is_install_file,
    is_requirements_file,
)
from agentjobs.inventory.manifests.kinds import kind_of


def groups_of(files: dict[str, str]) -> list[tuple[str, ...]]:
    manifests = {
        path: read(kind, text.encode()) for path, text in files.items() if (kind := kind_of(path))
    }
    texts = {p: t for p, t in files.items() if is_install_file(p) or is_requirements_file(p)}
    return list(find_installed_together(manifests, texts, files))


MAIN, TESTS = "requirements/main.txt", "requirements/tests.txt"
BOTH = [(MAIN, TESTS)]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("Dockerfile", f"FROM python\nRUN pip install -r {MAIN} \\\n  # both\n  -r {TESTS}\n"),
        (
            "docker/app.Dockerfile",
            "RUN pip install -r /tmp/main.txt && pip install -r/tmp/tests.txt",
        ),
        (
            "tox.ini",
            f"[testenv]\ndeps =\n  -r{{toxinidir}}/{MAIN}\n  -r {TESTS}\ncommands = pytest",
        ),
        (".github/workflows/ci.yml", f"      - run: uv pip sync {MAIN} {TESTS}\n"),
        (
            "noxfile.py",
            f'def tests(s):\n    s.install("-r", "{MAIN}")\n    s.install("-r{TESTS}")\n',
        ),
        ("requirements/Makefile", "install:\n\tpip install -r main.txt -c tests.txt\n"),
        ("ci/install.sh", "pip install $(printf -- '-r %s ' requirements/*.txt)"),
    ],
)
def test_files_named_in_one_command_are_installed_together(path: str, text: str) -> None:
    assert groups_of({MAIN: "", TESTS: "", path: text}) == BOTH


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("Dockerfile", f"COPY {MAIN} {TESTS} /tmp/\nRUN pip install -r {MAIN}\n"),
        ("Makefile", f"a:\n\tpip install -r {MAIN}\nb:\n\tpip install -r {TESTS}\n"),
        ("tox.ini", f"[testenv:a]\ndeps = -r {MAIN}\n[testenv:b]\ndeps = -r {TESTS}\n"),
        ("README.md", f"pip install -r {MAIN} -r {TESTS}"),
        ("Dockerfile", "RUN pip install -r other/main.txt.orig -r nowhere.txt"),
    ],
)
def test_files_of_separate_commands_are_not(path: str, text: str) -> None:
    assert groups_of({MAIN: "", TESTS: "", path: text}) == []


def test_a_name_that_several_files_have_is_not_guessed() -> None:
    files = {"a/main.txt": "", "b/main.txt": "", TESTS: ""}
    dockerfile = "RUN pip install -r /tmp/main.txt -r /tmp/tests.txt"
    assert groups_of({**files, "Dockerfile": dockerfile}) == []


def test_included_files_are_installed_with_every_file_that_includes_them() -> None:
    files = {
        "requirements/base.txt": "-c ../constraints.txt\nflask==1.0\n",
        "requirements/dev.txt": "-r base.txt\n-r dev.txt\n--requirement=missing.txt\n",
        "requirements/docs.txt": "-r base.txt # for the pages\n",
        "constraints.txt": "",
    }
    base = ("constraints.txt", "requirements/base.txt")
    assert groups_of(files) == [
        (*base, "requirements/dev.txt"),
        (*base, "requirements/docs.txt"),
    ]
    # A command that names two of them installs all.
    files["Dockerfile"] = "RUN pip install -r requirements/dev.txt -r requirements/docs.txt"
    assert groups_of(files) == [(*base, "requirements/dev.txt", "requirements/docs.txt")]


def test_a_lock_file_belongs_to_its_manifests_and_a_compiled_file_to_its_source() -> None:
    lock = '[[package]]\nname = "a"\nversion = "1"\n'
    files = {
        "api/poetry.lock": lock,
        "api/pyproject.toml": '[tool.poetry]\nname = "x"\n',
        "requirements.in": "a\n",
        "requirements.txt": "a==1\n",
        "web/package.json": '{"name": "w", "workspaces": ["packages/*"]}',
        "web/packages/b/package.json": '{"name": "b"}',
    }
    assert groups_of(files) == [
        ("api/poetry.lock", "api/pyproject.toml"),
        ("requirements.in", "requirements.txt"),
        ("web/package.json", "web/packages/b/package.json"),
    ]


def test_hostile_files_stay_bounded() -> None:
    many = {f"requirements/{n}.txt": f"-r {n + 1}.txt\n" for n in range(2_000)}
    commands = "\n".join(
        f"pip install -r requirements/{n}.txt -r requirements/{2 * n}.txt" for n in range(20_000)
    )
    groups = groups_of({**many, "a.sh": commands, "b.sh": "install " + "x" * 200_000 + ".tx"})
    assert 0 < len(groups) <= MAX_GROUPS
    assert all(len(group) <= 200 for group in groups)
