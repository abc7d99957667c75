"""Fixes of Python projects: requirements files, and lock files that old tools wrote."""

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from agentjobs_dependencies.advisories.model import Advisory
from agentjobs_dependencies.fixes.model import Fix
from tests.support.fix_corpus import Corpus, FixJob, advisory
from tests.support.fix_proofs import Proof, run_command
from tests.support.python_tools import (
    installs_together,
    lock_with_poetry,
    poetry,
    prove_uv_lock,
    python_tool,
    source_distribution,
    uv,
)
from tests.support.vulnerable_projects import UV as UV_PROGRAM

# Versions that are vulnerable by real advisories.
URLLIB3 = advisory("PyPI", "urllib3", "1.26.17")
REQUESTS = advisory("PyPI", "requests", "2.31.0")
CERTIFI = advisory("PyPI", "certifi", "2022.12.7")
PYGMENTS = advisory("PyPI", "pygments", "2.15.0")
IDNA = advisory("PyPI", "idna", "3.7")
H11 = advisory("PyPI", "h11", "0.16.0")
PYTHON = "{}.{}".format(*sys.version_info)


def changed_lines(job: FixJob, name: str) -> list[str]:
    """As git shows them, without context."""
    diff = run_command(job.tree, "git", "diff", "-U0", "HEAD~1", "--", name)
    return re.findall(r"^(?:-(?!--)|\+(?!\+\+)).*", diff, re.MULTILINE)


def blocks(lock: str) -> dict[str, str]:
    """The text of each package in a lock file of uv or Poetry."""
    texts = re.split(r"^\[\[package\]\]\n", lock, flags=re.MULTILINE)[1:]
    return {re.findall(r'name = "([^"]+)"', text)[0]: text.strip() for text in texts}


def assert_others_unchanged(before: str, after: str, *moved: str) -> None:
    old, new = blocks(before), blocks(after)
    last = list(old)[-1]
    for name in old.keys() - set(moved) - {last}:
        assert new[name] == old[name], name


# Requirements files


def test_files_that_a_dockerfile_installs_together(corpus: Corpus) -> None:
    project = corpus.project(
        {
            "Dockerfile": "FROM python:3.8-slim\n"
            "RUN pip install -r requirements/main.txt -r requirements/tests.txt\n",
            "requirements/main.txt": "requests==2.25.1\nurllib3==1.26.5\nflask==2.0.1\n",
            "requirements/tests.txt": "urllib3==1.26.5\npytest==6.2.4\nresponses==0.13.3\n",
        }
    )
    job = project.fix(URLLIB3, prove=installs_together("3.8"))
    assert job.changed == {"requirements/main.txt", "requirements/tests.txt"}


def test_constraints_that_a_requirements_file_names(corpus: Corpus) -> None:
    project = corpus.project(
        {
            ".python-version": "3.9\n",
            "requirements.txt": "-c constraints.txt\nrequests==2.25.1\nurllib3==1.26.5\n",
            "constraints.txt": "urllib3<1.26.6\nidna==2.10\n",
        }
    )
    job = project.fix(URLLIB3, prove=installs_together("3.9"))
    assert job.changed == {"requirements.txt", "constraints.txt"}
    assert job.read("constraints.txt") == "urllib3<2\nidna==2.10\n"


def test_all_pythons_of_a_ci_matrix_are_checked(corpus: Corpus) -> None:
    """numpy 1.19.5 has wheels for Python 3.6 to 3.9 only."""
    project = corpus.project(
        {
            ".gitlab-ci.yml": 'test:\n  parallel:\n    matrix:\n      - PYTHON: ["3.7", "3.9"]\n',
            "requirements.txt": "numpy==1.19.5\nrequests==2.25.1\nurllib3==1.26.5\n",
        }
    )
    project.fix(URLLIB3, prove=installs_together("3.7", "3.9"))


def test_a_version_that_conflicts_with_one_python_of_the_range(corpus: Corpus) -> None:
    """pytest 6.2 requires importlib-metadata on Python 3.7 only, and flake8 3.9 an older one."""
    project = corpus.project(
        {
            "tox.ini": "[tox]\nenvlist = py37, py311\n",
            "requirements.txt": "flake8==4.0.1\nimportlib-metadata==4.2.0\nzipp==3.5.0\n",
        }
    )
    job = project.fix(advisory("PyPI", "importlib-metadata", "4.8.0"), expect="failed")
    assert "with Python 3.7" in job.report


@pytest.mark.parametrize("found", [URLLIB3, REQUESTS], ids=["urllib3", "requests"])
def test_hashed_requirements(corpus: Corpus, found: Advisory) -> None:
    project = corpus.project({"main.in": "requests==2.25.1\nurllib3==1.26.5\n"})
    hashed = ("--generate-hashes", "--python-version=3.8", "--no-header")
    uv(project.tree, "pip", "compile", "-q", "main.in", "-o", "requirements.txt", *hashed)
    (project.tree / "main.in").unlink()
    project.fix(found, prove=installs_together("3.8"))


def test_a_file_with_packages_that_have_no_wheel(corpus: Corpus) -> None:
    """Their metadata is in the source distribution; nothing is built."""
    project = corpus.project(
        {
            "runtime.txt": "python-3.9.18\n",
            "requirements.txt": "docopt==0.6.2\nrequests==2.25.1\nurllib3==1.26.5\n",
        }
    )
    project.fix(URLLIB3, prove=installs_together("3.9"))


def test_pins_that_never_could_be_installed_together_make_a_draft(corpus: Corpus) -> None:
    project = corpus.project({"requirements.txt": "requests==2.25.1\nurllib3==1.0\nidna==3.7\n"})
    job = project.fix(URLLIB3, expect="draft")
    assert "cannot be installed together either" in job.reason


@pytest.mark.parametrize(("name", "version"), [("flask", "2.0.1"), ("click", "8.0.1")])
def test_compiled_files_of_published_projects(corpus: Corpus, name: str, version: str) -> None:
    """pip-tools 6.1 wrote them, and they do not have their sources."""
    project = corpus.project(source_distribution(name, version))
    job = project.fix(CERTIFI, prove=installs_together("3.9"))
    assert job.changed == {"requirements/dev.txt", "requirements/docs.txt"}
    for manifest in job.changed:
        assert changed_lines(job, manifest) == [
            "-certifi==2020.12.5",
            "+certifi==2022.12.7",
        ]


def test_a_version_that_a_published_project_cannot_use(corpus: Corpus) -> None:
    """Werkzeug 2.0 supports Python 3.6, and Pygments 2.15 does not."""
    project = corpus.project(source_distribution("werkzeug", "2.0.1"))
    job = project.fix(PYGMENTS, expect="failed")
    assert "the project supports 3.6" in job.report


@pytest.mark.parametrize(
    "tools", [("pip-tools==6.4.0", "pip==21.3.1"), ("pip-tools==7.4.1", "pip==24.0")]
)
def test_compiled_files_with_their_sources(corpus: Corpus, tools: tuple[str, ...]) -> None:
    project = corpus.project({"requirements.in": "requests<2.26\nurllib3<1.26.6\nflask<2.1\n"})
    program = str(python_tool(*tools, "setuptools<66") / "pip-compile")
    run_command(project.tree, program, "--quiet", "requirements.in")
    project.write({"requirements.in": "requests<3\nurllib3<1.27\nflask<2.1\n"})
    before = project.read("requirements.txt")
    # requests 2.25 excludes this version of idna, so the file is compiled again.
    job = project.fix(IDNA, prove=installs_together(PYTHON))
    after = job.read("requirements.txt")
    assert job.changed == {"requirements.txt"}
    assert "idna==3.7\n" in after
    for name in ("urllib3", "flask", "certifi", "jinja2", "werkzeug"):
        pin = re.findall(rf"^{name}==.*\n(?:    #.*\n)*", before, re.MULTILINE)
        assert pin[0] in after
    assert after.startswith(before[: before.index("\ncertifi")])


# Requirements of pyproject.toml

DEMO = """\
[build-system]
requires = ["setuptools<81"]
build-backend = "setuptools.build_meta"

[project]
name = "demo"
version = "1"
requires-python = ">=3.9"
{dependencies}

[tool.setuptools]
py-modules = []
"""
WITH_EXTRA = """\
dependencies = ["requests<2.26"]

[project.optional-dependencies]
web = ["urllib3{urllib3}", "flask<2.1"]
"""


def compiled_with(*command: str) -> Proof:
    """The command that compiled the file has nothing to change, and uv can install it."""

    def prove(tree: Path, fixes: Sequence[Fix]) -> None:
        run_command(tree, *command)
        run_command(tree, "git", "diff", "--exit-code")
        installs_together(PYTHON)(tree, fixes)

    return prove


@pytest.mark.parametrize("tool", ["uv", "pip-compile"])
def test_a_file_that_is_compiled_from_pyproject_toml(corpus: Corpus, tool: str) -> None:
    text = DEMO.format(dependencies=WITH_EXTRA.format(urllib3="==1.26.5"))
    project = corpus.project({"pyproject.toml": text, ".gitignore": "*.egg-info/\n"})
    if tool == "uv":
        command = (str(UV_PROGRAM), "pip", "compile", "-q", "pyproject.toml", "--extra=web")
    else:
        tools = python_tool("pip-tools==7.4.1", "pip==24.0", "setuptools<66")
        command = (str(tools / tool), "--quiet", "pyproject.toml", "--extra=web", "--strip-extras")
    command = (*command, "--output-file=requirements.txt")
    run_command(project.tree, *command)
    # The pins of both files are vulnerable, and one job fixes them.
    job = project.fix(URLLIB3, prove=compiled_with(*command))
    assert job.changed == {"pyproject.toml", "requirements.txt"}
    assert changed_lines(job, "requirements.txt") == ["-urllib3==1.26.5", "+urllib3==1.26.17"]
    allowed = text.replace("==1.26.5", "==1.26.17")
    assert job.read("pyproject.toml") == allowed


def test_a_range_of_the_project_that_a_file_was_compiled_from(corpus: Corpus) -> None:
    text = DEMO.format(dependencies=WITH_EXTRA.format(urllib3="<1.26.6"))
    project = corpus.project({"pyproject.toml": text})
    command = (str(UV_PROGRAM), "pip", "compile", "-q", "pyproject.toml", "--all-extras")
    command = (*command, "--universal", "--python-version=3.9", "-o", "requirements.txt")
    run_command(project.tree, *command)
    job = project.fix(URLLIB3, prove=compiled_with(*command))
    assert job.changed == {"pyproject.toml", "requirements.txt"}
    assert job.read("pyproject.toml") == text.replace("<1.26.6", "<2")


def prove_project(tree: Path, _fixes: Sequence[Fix]) -> None:
    """The project can be installed with the lowest Python and this one, and with all extras."""
    for python in ("3.9", PYTHON):
        options = ("--all-extras", f"--python-version={python}", "--output-file=/dev/null")
        uv(tree, "pip", "compile", "-q", "pyproject.toml", *options)


def test_pins_of_pyproject_toml_without_a_lock_file(corpus: Corpus) -> None:
    pinned = WITH_EXTRA.format(urllib3="==1.26.5")
    project = corpus.project({"pyproject.toml": DEMO.format(dependencies=pinned)})
    job = project.fix(URLLIB3, prove=prove_project)
    assert changed_lines(job, "pyproject.toml") == [
        '-web = ["urllib3==1.26.5", "flask<2.1"]',
        '+web = ["urllib3==1.26.17", "flask<2.1"]',
    ]


def test_a_pin_of_pyproject_toml_that_excludes_the_fix(corpus: Corpus) -> None:
    """requests 2.25 excludes urllib3 2, so the project could not be installed."""
    dependencies = 'dependencies = ["requests==2.25.1", "urllib3==1.26.5"]'
    project = corpus.project({"pyproject.toml": DEMO.format(dependencies=dependencies)})
    job = project.fix(advisory("PyPI", "urllib3", "2.0.7"), expect="failed")
    assert "another requirement excludes urllib3" in job.report


DYNAMIC = """\
dynamic = ["dependencies", "optional-dependencies"]

[tool.setuptools.dynamic]
dependencies = {file = ["requirements/main.txt"]}
optional-dependencies.web = {file = ["requirements/web.txt"]}
"""


def test_files_that_setuptools_reads(corpus: Corpus) -> None:
    project = corpus.project(
        {
            "pyproject.toml": DEMO.format(dependencies=DYNAMIC),
            "requirements/main.txt": "requests==2.25.1\nurllib3==1.26.5\n",
            "requirements/web.txt": "urllib3<1.26.6\nflask==2.0.1\n",
        }
    )
    job = project.fix(URLLIB3, prove=prove_project)
    assert job.changed == {"requirements/main.txt", "requirements/web.txt"}
    assert job.read("requirements/web.txt") == "urllib3<2\nflask==2.0.1\n"


# uv

EXPORTED_OLD = 'dependencies = ["requests==2.25.1", "urllib3==1.26.5"]'
EXPORTED = 'dependencies = ["requests>=2.25"]'
UV = """\
[project]
name = "demo"
version = "1"
requires-python = ">=3.9"
dependencies = ["requests{requests}", "docopt"]

[project.optional-dependencies]
web = ["flask<2.1"]

[dependency-groups]
test = ["pytest<7"]
"""


@pytest.mark.parametrize("version", ["0.4.30", "0.5.31", "0.7.22", ""])
def test_lock_files_of_several_versions_of_uv(corpus: Corpus, version: str) -> None:
    project = corpus.project({"pyproject.toml": UV.format(requests='<2.26", "urllib3==1.26.5')})
    uv(project.tree, "lock", "-q", version=version)
    project.write({"pyproject.toml": UV.format(requests=">=2.25")})
    uv(project.tree, "lock", "-q", version=version)
    before = project.read("uv.lock")
    job = project.fix(URLLIB3, prove=prove_uv_lock)
    assert job.changed == {"uv.lock"}
    assert_others_unchanged(before, job.read("uv.lock"), "urllib3")
    assert job.read("uv.lock").partition("[[package]]")[0] == before.partition("[[package]]")[0]
    uv(job.tree, "lock", "--locked", version=version)


EXPORTS = {
    "requirements.txt": ("--no-dev", "--no-emit-project"),
    "docker/requirements.txt": ("--all-extras", "--all-groups", "--no-hashes"),
}


def exports_are_current(tree: Path, fixes: Sequence[Fix]) -> None:
    prove_uv_lock(tree, fixes)
    for name, options in EXPORTS.items():
        uv(tree, "export", "--quiet", "--frozen", *options, "--output-file", name)
    run_command(tree, "git", "diff", "--exit-code")


def test_files_that_are_exported_from_the_lock_file(corpus: Corpus) -> None:
    """A newer urllib3 needs a newer requests, so a line of the package is not all that changes."""
    project = corpus.project({"pyproject.toml": DEMO.format(dependencies=EXPORTED_OLD)})
    uv(project.tree, "lock", "--quiet")
    project.write({"pyproject.toml": DEMO.format(dependencies=EXPORTED), "docker/x": ""})
    uv(project.tree, "lock", "--quiet")
    for name, options in EXPORTS.items():
        uv(project.tree, "export", "--quiet", "--frozen", *options, "--output-file", name)
    job = project.fix(advisory("PyPI", "urllib3", "2.0.7"), prove=exports_are_current)
    assert job.changed == {"uv.lock", *EXPORTS}
    assert "urllib3==2.0.7" in job.read("docker/requirements.txt")
    assert "requests==2.25.1" not in job.read("docker/requirements.txt")


def test_a_file_that_is_exported_with_other_options_gives_a_draft(corpus: Corpus) -> None:
    project = corpus.project({"pyproject.toml": DEMO.format(dependencies=EXPORTED_OLD)})
    uv(project.tree, "lock", "--quiet")
    project.write({"pyproject.toml": DEMO.format(dependencies=EXPORTED)})
    uv(project.tree, "lock", "--quiet")
    options = ("--no-hashes", "--no-emit-project", "--emit-index-url")
    uv(project.tree, "export", "--quiet", "--frozen", *options, "--output-file=requirements.txt")
    job = project.fix(URLLIB3, expect="draft")
    assert "run the `uv export` of its header again" in job.reason
    assert job.changed == {"uv.lock", "requirements.txt"}


def test_the_workspace_of_a_published_project(corpus: Corpus) -> None:
    """An old uv wrote the lock file, with the lowest versions of direct requirements."""
    project = corpus.project(source_distribution("mcp", "1.2.0"))
    before = project.read("uv.lock")
    job = project.fix(H11, prove=prove_uv_lock)
    assert_others_unchanged(before, job.read("uv.lock"), "h11", "httpcore", "mcp")


# Poetry

POETRY = """\
[tool.poetry]
name = "demo"
version = "1"
description = ""
authors = []

[tool.poetry.dependencies]
python = "^3.8"
requests = "<2.26"
{urllib3}docopt = "*"
flask = {{version = "<2.1", optional = true}}

[tool.poetry.{dev}dependencies]
pytest = "<7"
colorama = "*"
markupsafe = "<2.1"

[tool.poetry.extras]
web = ["flask"]
"""
PROJECT = """\
[project]
name = "demo"
version = "1"
requires-python = ">=3.9,<4"
dependencies = ["requests (<2.26)", {urllib3}"docopt"]

[project.optional-dependencies]
web = ["flask (<2.1)"]

[tool.poetry]
package-mode = false

[tool.poetry.group.test.dependencies]
pytest = "<7"
"""


def poetry_project(version: str, urllib3: str) -> Mapping[str, str]:
    if version >= "2":
        text = PROJECT.format(urllib3=f'"urllib3 ({urllib3})", ' if urllib3 else "")
    else:
        dev = "dev-" if version < "1.2" else "group.dev."
        text = POETRY.format(urllib3=f'urllib3 = "{urllib3}"\n' if urllib3 else "", dev=dev)
    return {"pyproject.toml": text}


def written_by_poetry(version: str) -> Proof:
    """The version that wrote the file has nothing to change, and can install it."""

    def prove(tree: Path, _fixes: Sequence[Fix]) -> None:
        lock_with_poetry(tree, version)
        run_command(tree, "git", "diff", "--exit-code")
        poetry(tree, version, "install", "--dry-run", "--no-root", "--extras", "web")

    return prove


@pytest.mark.parametrize(
    "version", ["1.0.9", "1.0.10", "1.1.15", "1.2.2", "1.3.2", "1.4.2", "1.8.5", "2.0.1", "2.1.4"]
)
def test_lock_files_of_several_versions_of_poetry(corpus: Corpus, version: str) -> None:
    project = corpus.project(poetry_project(version, "==1.26.5"))
    lock_with_poetry(project.tree, version, keeps_versions=False)
    project.write(poetry_project(version, ""))
    lock_with_poetry(project.tree, version)
    before = project.read("poetry.lock")
    job = project.fix(URLLIB3, prove=written_by_poetry(version))
    assert job.changed == {"poetry.lock"}
    after = job.read("poetry.lock")
    assert_others_unchanged(before, after, "urllib3")
    assert after.partition("[[package]]")[0] == before.partition("[[package]]")[0]
    lines = changed_lines(job, "poetry.lock")
    assert {'-version = "1.26.5"', '+version = "1.26.17"'} <= set(lines)
    kinds = {re.split(r"[ =]", line[1:].strip(), maxsplit=1)[0] for line in lines}
    assert kinds <= {"version", "python-versions", "{file", "brotli", "secure", "socks"}


@pytest.mark.parametrize("version", ["1.1.15", "2.1.4"])
def test_a_requirement_that_excludes_the_fix_is_raised(corpus: Corpus, version: str) -> None:
    project = corpus.project(poetry_project(version, "==1.26.5"))
    lock_with_poetry(project.tree, version, keeps_versions=False)
    job = project.fix(URLLIB3, prove=written_by_poetry(version))
    assert job.changed == {"poetry.lock", "pyproject.toml"}


# pipenv

PIPFILE = f"""\
[[source]]
url = "https://pypi.org/simple"
verify_ssl = true
name = "pypi"

[packages]
requests = "<2.26"
urllib3 = "==1.26.5"

[dev-packages]
pytest = "<7"

[requires]
python_version = "{PYTHON}"
"""


@pytest.mark.parametrize(
    "tools",
    # Later releases of what an old version of pipenv requires break it.
    [("pipenv==2022.1.8", "setuptools<66", "virtualenv==20.13.0"), ("pipenv==2024.4.1",)],
)
def test_lock_files_of_several_versions_of_pipenv(corpus: Corpus, tools: tuple[str, ...]) -> None:
    environments = str(corpus.directory / "environments")
    settings = {
        "PIPENV_IGNORE_VIRTUALENVS": "1",
        "PIPENV_NOSPIN": "1",
        # Otherwise virtualenv uses the newest setuptools that it has seen on this machine.
        "VIRTUALENV_OVERRIDE_APP_DATA": str(corpus.directory / "virtualenv"),
        "WORKON_HOME": environments,
    }

    def pipenv(tree: Path, *arguments: str) -> str:
        return run_command(tree, str(python_tool(*tools) / "pipenv"), *arguments, **settings)

    def prove(tree: Path, _fixes: Sequence[Fix]) -> None:
        """pipenv finds the lock file up to date and installs it with its hashes."""
        pipenv(tree, "install", "--deploy", "--dev")
        assert "urllib3==1.26.17" in pipenv(tree, "run", "pip", "freeze")

    project = corpus.project({"Pipfile": PIPFILE})
    pipenv(project.tree, "lock")
    job = project.fix(URLLIB3, prove=prove)
    assert job.changed == {"Pipfile", "Pipfile.lock"}
    assert [line.strip(' +",') for line in changed_lines(job, "Pipfile.lock")][-1] == (
        'version": "==1.26.17'
    )
    assert len(changed_lines(job, "Pipfile.lock")) == 8
