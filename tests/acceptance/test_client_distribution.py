"""The client's wheel, built and installed into an environment without the server."""

import re
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from agentjobs_client import __version__
from tests.support.paths import PROJECT
from tests.support.service import Api, Service

CLIENT = PROJECT / "clients" / "python"
EXAMPLES = re.findall(r"(?ms)^```python\n(.*?)^```$", (CLIENT / "README.md").read_text())
IMPORTS = """
import importlib.util, agentjobs_client
from agentjobs_client import frameworks
print(agentjobs_client.__version__, importlib.util.find_spec("agentjobs"))
"""


def run(*command: str, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(target), cwd=CLIENT)
    (wheel,) = target.iterdir()
    return wheel


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a new environment with the wheel and what it requires, from this one."""
    environment = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", "--without-pip", str(environment), cwd=environment)
    python = environment / "bin" / "python"
    (packages,) = environment.glob("lib/python*/site-packages")
    for name in required_by("agentjobs-client"):
        copy_distribution(name, packages)
    uv = (sys.executable, "-m", "uv", "pip")
    options = ("--python", str(python), "--offline", "--no-cache")
    run(*uv, "install", *options, "--no-deps", str(wheel), cwd=environment)
    run(*uv, "check", "--python", str(python), "--no-cache", cwd=environment)
    return python


def required_by(name: str) -> set[str]:
    """The distributions that this one requires, directly or not."""
    names: set[str] = set()
    for text in distribution(name).requires or ():
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            names |= {requirement.name, *required_by(requirement.name)}
    return names


def copy_distribution(name: str, packages: Path) -> None:
    for file in distribution(name).files or ():
        # Not the scripts, which are outside.
        if ".." not in file.parts and (source := Path(str(file.locate()))).is_file():
            target = packages / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)


def test_the_wheel_contains_the_client_alone_with_types_and_license(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = [name for name in names if name.endswith("METADATA")]
        text = archive.read(metadata).decode()
    assert "agentjobs_client/py.typed" in names
    assert "agentjobs_client/frameworks/django.py" in names
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"agentjobs_client"}
    assert re.findall(r"^Requires-Dist: (\w+)", text, re.MULTILINE) == ["httpx", "msgspec"]
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert (CLIENT / "LICENSE").read_bytes() == (PROJECT / "LICENSE").read_bytes()


def test_the_client_runs_without_the_server(python: Path, tmp_path: Path) -> None:
    assert run(str(python), "-I", "-c", IMPORTS, cwd=tmp_path) == f"{__version__} None\n"


def test_the_examples_of_its_readme_run(
    python: Path, service: Service, key: str, api: Api, tmp_path: Path
) -> None:
    settings = {"AGENTJOBS_URL": service.base_url, "AGENTJOBS_API_KEY": key}
    first, listing, errors, *webhooks = EXAMPLES
    output = run(str(python), "-I", "-W", "error", "-c", first, cwd=tmp_path, **settings)
    assert output.startswith(f"completed {service.root_url}/default/acme/shop/pulls/")
    assert "+++ b/app.py" in output
    assert run(str(python), "-I", "-W", "error", "-c", listing, cwd=tmp_path, **settings)
    assert run(str(python), "-I", "-W", "error", "-c", errors, cwd=tmp_path, **settings) == ""
    for example in webhooks:
        compile(example, "README.md", "exec")
