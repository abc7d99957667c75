"""Package managers of Python in the versions that a test asks for, and published projects."""

import atexit
import re
import shutil
import sys
import tarfile
import tempfile
import urllib.request
from collections.abc import Sequence
from functools import cache
from io import BytesIO
from pathlib import Path

from agentjobs_dependencies.fixes.model import Fix
from agentjobs_runtime.settings.registries import public_registry
from agentjobs_worker.agents.builtin_agents import CVE_FIXER_DIRECTORY
from tests.support.fix_proofs import Proof, run_command
from tests.support.vulnerable_projects import UV

REGISTRY = public_registry("pypi").rstrip("/")
_SOURCE = re.compile(r"\n\[package\.source\]\n(?:.+\n){3}")
# The fixer's launcher sets the index without changing files. It does not build; a build of docopt
# would report that docopt requires nothing.
_POETRY = f"""\
import sys
sys.path.insert(0, {str(CVE_FIXER_DIRECTORY / "python")!r})
import poetry_without_builds
if not sys.argv[1].startswith("1.0."):
    from poetry.inspection.info import PackageInfo
    docopt = PackageInfo(name="docopt", version="0.6.2", requires_dist=[])
    poetry_without_builds.refuse_to_build = lambda *_: docopt
del sys.argv[1]
sys.exit(poetry_without_builds.main())
"""


def uv(directory: Path, *arguments: str, version: str = "") -> str:
    """The service's uv, or an older one."""
    program = python_tool(f"uv=={version}") / "uv" if version else UV
    return run_command(directory, str(program), *arguments)


@cache
def python_tool(*requirements: str, overrides: tuple[str, ...] = ()) -> Path:
    """The directory of programs of a new environment with these packages."""
    directory = Path(tempfile.mkdtemp(prefix="python-tool-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    overrides_file = directory / "overrides.txt"
    overrides_file.write_text("\n".join(overrides))
    uv(directory, "venv", "--quiet", "--python", sys.executable, "environment")
    python = directory / "environment" / "bin" / "python"
    options = ("--overrides", str(overrides_file))
    uv(directory, "pip", "install", "--quiet", "--python", str(python), *options, *requirements)
    return python.parent


def poetry(directory: Path, version: str, *arguments: str) -> str:
    # The releases of pyrsistent that Poetry 1.0 requires have no wheel.
    overrides = ("urllib3<2", "pyrsistent") if version < "1.6" else ()
    python = python_tool(f"poetry=={version}", overrides=overrides) / "python"
    output = run_command(
        directory,
        *(str(python), "-c", _POETRY, version, *arguments, "--no-interaction"),
        AGENTJOBS_FIXER_REGISTRY=REGISTRY,
        AGENTJOBS_FIXER_PACKAGE="",
    )
    lock = directory / "poetry.lock"
    lock.write_text(_SOURCE.sub("", lock.read_text()))
    return output


def lock_with_poetry(directory: Path, version: str, *, keeps_versions: bool = True) -> None:
    if keeps_versions and version < "1.1":
        # Poetry 1.0 can only update, and there is no newer version of this package.
        poetry(directory, version, "update", "--lock", "docopt")
        return
    has_option = keeps_versions and version < "2"
    poetry(directory, version, "lock", *(("--no-update",) if has_option else ()))


def installs_together(*pythons: str, files: Sequence[str] = ()) -> Proof:
    """uv can install the files together, or all that were fixed, with each Python."""

    def prove(tree: Path, fixes: Sequence[Fix]) -> None:
        names = files or sorted({fix.manifest for fix in fixes})
        requirements = [f"--requirements={name}" for name in names]
        for python in pythons:
            options = ("--dry-run", "--target=installed", f"--python-version={python}")
            uv(tree, "pip", "install", "--quiet", *options, *requirements)

    return prove


def prove_uv_lock(directory: Path, _fixes: Sequence[Fix]) -> None:
    uv(directory, "lock", "--check")
    uv(directory, "sync", "--locked", "--dry-run", "--all-extras", "--all-groups")


def source_distribution(name: str, version: str) -> dict[str, str]:
    """The text files of a published source distribution."""
    with urllib.request.urlopen(f"{REGISTRY}/{name}/") as response:
        page = response.read().decode()
    pattern = rf'href="([^"#]*/{name}-{re.escape(version)}\.tar\.gz)[#"]'
    link = re.search(pattern, page, re.IGNORECASE)
    assert link is not None, f"{name} {version} has no source distribution"
    with urllib.request.urlopen(link[1]) as response:
        content = BytesIO(response.read())
    with tarfile.open(fileobj=content) as archive:
        contents = {
            member.name.partition("/")[2]: file.read()
            for member in archive.getmembers()
            if (file := archive.extractfile(member))
        }
    return {
        path: data.decode(errors="replace") for path, data in contents.items() if b"\0" not in data
    }
