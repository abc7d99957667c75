"""Runs Poetry in its own Python: from one registry, with one version of one package, no builds.

Started as a script by `poetry_lock`. Poetry has no option for any of the three: it builds a source
distribution to read its metadata, knows other indexes only from pyproject.toml, which is part of
the lock file's hash, and takes the newest version that the constraints admit.
"""

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

REGISTRY, PACKAGE, VERSION = (
    f"AGENTJOBS_FIXER_{name}" for name in ("REGISTRY", "PACKAGE", "VERSION")
)
SOURCE = "agentjobs-registry"
# By name: nothing of Poetry is in the service's own environment.
_MODULES = (
    "poetry.console.application",
    "poetry.factory",
    "poetry.inspection.info",
    "poetry.repositories",
    "poetry.utils.env",
    "poetry.repositories.legacy_repository",
    "poetry.repositories.pypi_repository",
)


def main() -> Any:
    application, factory, info, pool, env, legacy, pypi = map(import_module, _MODULES)
    _keep_from_building(info)
    for repository in (legacy.LegacyRepository, pypi.PyPiRepository):
        repository._get_release_info = or_from_lock(repository._get_release_info, factory, info)
    # A lock file is for every Python that the project admits, whichever this one is.
    env.EnvManager.create_venv = lambda manager, *_, **__: manager.get_system_env()
    factory.Factory.create_pool = from_registry(factory.Factory.create_pool)
    pool.RepositoryPool.find_packages = only_version(pool.RepositoryPool.find_packages)
    return application.main()


def _keep_from_building(info: Any) -> None:
    if not hasattr(info, "isolated_builder"):
        sys.exit("this Poetry is not known well enough to keep it from building packages")
    info.isolated_builder = refuse_to_build


class NothingIsBuilt(Exception):
    """a package has no wheel, and nothing is built here to read its metadata"""


def refuse_to_build(*_: object, **__: object) -> None:
    raise NothingIsBuilt(NothingIsBuilt.__doc__)


def or_from_lock(get_release_info: Any, factory: Any, info: Any) -> Any:
    """What only a build would tell of a package that stays, the lock file knows."""

    def get(repository: Any, name: Any, version: Any) -> Any:
        try:
            return get_release_info(repository, name, version)
        except NothingIsBuilt:
            locker = factory.Factory().create_poetry(Path.cwd()).locker
            for package in locker.locked_repository().packages:
                if (package.name, package.version) == (name, version):
                    known = info.PackageInfo.from_package(package).asdict()
                    return {**known, "_cache_version": str(repository.CACHE_VERSION)}
            raise

    return get


def from_registry(create_pool: Any) -> Any:
    def create(config: Any, sources: Any = (), *rest: Any, **options: Any) -> Any:
        registry = os.environ.get(REGISTRY)
        has_own = any(source.get("priority", "primary") == "primary" for source in sources)
        if registry and not has_own:
            sources = [*sources, {"name": SOURCE, "url": registry, "priority": "primary"}]
        return create_pool(config, sources, *rest, **options)

    return staticmethod(create)


def only_version(find_packages: Any) -> Any:
    def find(pool: Any, dependency: Any) -> Any:
        found = find_packages(pool, dependency)
        if dependency.name != os.environ[PACKAGE]:
            return found
        return [package for package in found if package.version.text == os.environ[VERSION]]

    return find


if __name__ == "__main__":
    sys.exit(main())
