"""Runs any Poetry since 1.0 with one registry, one version of one package, and no builds.

`poetry_lock` starts this script with Poetry's own Python. Poetry has no option for any of the
three: it builds source distributions to read their metadata, reads other indexes only from
pyproject.toml, which is part of the lock file's hash, and takes the newest version that the
constraints allow.
"""

import os
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

REGISTRY, PACKAGE, VERSION = (
    f"AGENTJOBS_FIXER_{name}" for name in ("REGISTRY", "PACKAGE", "VERSION")
)
# The name in the lock file of the source that replaces PyPI.
SOURCE = "PyPI"


def main() -> Any:
    # By name, because the service's own environment does not have Poetry.
    pypi = import_module("poetry.repositories.pypi_repository")
    legacy = import_module("poetry.repositories.legacy_repository")
    if find_spec("poetry.inspection"):
        info = import_module("poetry.inspection.info")
        _prevent_builds(info)
        for repository in (legacy.LegacyRepository, pypi.PyPiRepository):
            repository._get_release_info = with_lock_fallback(repository._get_release_info, info)
    if os.environ.get(REGISTRY):
        vars(pypi)["PyPiRepository"] = registry_class(legacy.LegacyRepository)
    # Poetry 1.0 and 1.1 import the repository's class when these modules are loaded.
    repositories, env, provider = map(
        import_module, ("poetry.repositories", "poetry.utils.env", "poetry.puzzle.provider")
    )
    # Poetry 1.0 only runs code of directories; it reads source distributions without builds.
    provider.Provider._execute_setup = refuse_to_build
    pool = getattr(repositories, "RepositoryPool", None) or repositories.Pool
    pool.find_packages = pin_version(pool.find_packages)
    # A lock file applies to every Python that the project allows, whichever this one is.
    env.EnvManager.create_venv = lambda *_, **__: env.SystemEnv(Path(sys.prefix))
    return import_module("poetry.console.application").Application().run()


def _prevent_builds(info: Any) -> None:
    if hasattr(info, "get_pep517_metadata"):
        info.get_pep517_metadata = refuse_to_build
    elif hasattr(info.PackageInfo, "_pep517_metadata"):
        info.PackageInfo._pep517_metadata = refuse_to_build
    else:
        sys.exit("this version of Poetry cannot be kept from building packages")


class BuildRefused(Exception):
    """a package has no wheel, and the fixer does not build packages to read their metadata"""


def refuse_to_build(*_: object, **__: object) -> None:
    raise BuildRefused(BuildRefused.__doc__)


def with_lock_fallback(get_release_info: Any, info: Any) -> Any:
    """Read metadata from the lock file if only a build could provide it."""

    def get(repository: Any, name: Any, version: Any) -> Any:
        try:
            return get_release_info(repository, name, version)
        except BuildRefused:
            for package in locked_packages():
                if (package.name, str(package.version)) == (name, str(version)):
                    metadata = info.PackageInfo.from_package(package).asdict()
                    return {**metadata, "_cache_version": str(repository.CACHE_VERSION)}
            raise

    return get


def locked_packages() -> Any:
    locker = import_module("poetry.factory").Factory().create_poetry(Path.cwd()).locker
    try:
        # Poetry 1.1 leaves out development requirements by default.
        return locker.locked_repository(True).packages
    except TypeError:
        return locker.locked_repository().packages


def registry_class(legacy_repository: Any) -> Any:
    class Registry(legacy_repository):  # type: ignore[misc]  # a class of the installed Poetry
        def __init__(self, *_: object, **__: object) -> None:
            super().__init__("registry", os.environ[REGISTRY])
            # The constructor reserves this name.
            self._name = SOURCE

    return Registry


def pin_version(find_packages: Any) -> Any:
    def find(pool: Any, dependency: Any, *more: Any, **options: Any) -> Any:
        packages = find_packages(pool, dependency, *more, **options)
        # Poetry 1.0 passes the name.
        if getattr(dependency, "name", dependency) != os.environ[PACKAGE]:
            return packages
        return [package for package in packages if package.version.text == os.environ[VERSION]]

    return find


if __name__ == "__main__":
    sys.exit(main())
