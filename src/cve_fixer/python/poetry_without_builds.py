"""Runs Poetry in its own Python with one registry, one version of one package, and no builds.

`poetry_lock` starts this script. Poetry has no option for any of the three: it builds source
distributions to read their metadata, reads other indexes only from pyproject.toml, which is part of
the lock file's hash, and takes the newest version that the constraints allow.
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
# By name, because the service's own environment does not have Poetry.
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
    _prevent_builds(info)
    for repository in (legacy.LegacyRepository, pypi.PyPiRepository):
        repository._get_release_info = with_lock_fallback(
            repository._get_release_info, factory, info
        )
    # A lock file applies to every Python that the project allows, whichever this one is.
    env.EnvManager.create_venv = lambda manager, *_, **__: manager.get_system_env()
    factory.Factory.create_pool = use_registry(factory.Factory.create_pool)
    pool.RepositoryPool.find_packages = pin_version(pool.RepositoryPool.find_packages)
    return application.main()


def _prevent_builds(info: Any) -> None:
    if not hasattr(info, "isolated_builder"):
        sys.exit("this version of Poetry cannot be kept from building packages")
    info.isolated_builder = refuse_to_build


class BuildRefused(Exception):
    """a package has no wheel, and the fixer does not build packages to read their metadata"""


def refuse_to_build(*_: object, **__: object) -> None:
    raise BuildRefused(BuildRefused.__doc__)


def with_lock_fallback(get_release_info: Any, factory: Any, info: Any) -> Any:
    """Read metadata from the lock file if only a build could provide it."""

    def get(repository: Any, name: Any, version: Any) -> Any:
        try:
            return get_release_info(repository, name, version)
        except BuildRefused:
            locker = factory.Factory().create_poetry(Path.cwd()).locker
            for package in locker.locked_repository().packages:
                if (package.name, package.version) == (name, version):
                    metadata = info.PackageInfo.from_package(package).asdict()
                    return {**metadata, "_cache_version": str(repository.CACHE_VERSION)}
            raise

    return get


def use_registry(create_pool: Any) -> Any:
    def create(config: Any, sources: Any = (), *rest: Any, **options: Any) -> Any:
        registry = os.environ.get(REGISTRY)
        has_primary = any(source.get("priority", "primary") == "primary" for source in sources)
        if registry and not has_primary:
            sources = [*sources, {"name": SOURCE, "url": registry, "priority": "primary"}]
        return create_pool(config, sources, *rest, **options)

    return staticmethod(create)


def pin_version(find_packages: Any) -> Any:
    def find(pool: Any, dependency: Any) -> Any:
        packages = find_packages(pool, dependency)
        if dependency.name != os.environ[PACKAGE]:
            return packages
        return [package for package in packages if package.version.text == os.environ[VERSION]]

    return find


if __name__ == "__main__":
    sys.exit(main())
