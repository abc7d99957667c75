"""Determines from its path whether a file is a manifest, and which reader it has."""

# Kind (the file's usual name): ecosystem, module, function `(content: bytes) -> ParsedManifest`
READERS = {
    "requirements.txt": ("PyPI", "pypi.requirements", "read_requirements"),
    "pyproject.toml": ("PyPI", "pypi.project", "read_pyproject"),
    "setup.cfg": ("PyPI", "pypi.project", "read_setup_cfg"),
    "Pipfile": ("PyPI", "pypi.project", "read_pipfile"),
    "Pipfile.lock": ("PyPI", "pypi.pipfile_lock", "read_pipfile_lock"),
    "uv.lock": ("PyPI", "pypi.uv_lock", "read_uv_lock"),
    "poetry.lock": ("PyPI", "pypi.poetry_lock", "read_poetry_lock"),
    "package.json": ("npm", "npm.package_json", "read_package_json"),
    "package-lock.json": ("npm", "npm.package_lock", "read_package_lock"),
    "npm-shrinkwrap.json": ("npm", "npm.package_lock", "read_package_lock"),
    "pnpm-lock.yaml": ("npm", "npm.pnpm_lock", "read_pnpm_lock"),
    "yarn.lock": ("npm", "npm.yarn_lock", "read_yarn_lock"),
    "go.mod": ("Go", "golang", "read_go_mod"),
    "Cargo.toml": ("crates.io", "cargo.manifest", "read_cargo_toml"),
    "Cargo.lock": ("crates.io", "cargo.manifest", "read_cargo_lock"),
    "pom.xml": ("Maven", "maven.pom", "read_pom"),
    "Gemfile.lock": ("RubyGems", "ruby", "read_gemfile_lock"),
    "composer.json": ("Packagist", "composer", "read_composer_json"),
    "composer.lock": ("Packagist", "composer", "read_composer_lock"),
}
ECOSYSTEMS = tuple(dict.fromkeys(ecosystem for ecosystem, *_ in READERS.values()))
# Suffixes of the paths of all manifests.
ENDINGS = (".txt", *(name for name in READERS if not name.endswith(".txt")))

# Files written by tools grow with the number of packages; their readers have other limits.
LARGE = frozenset(
    {
        "Pipfile.lock",
        "uv.lock",
        "poetry.lock",
        "package-lock.json",
        "npm-shrinkwrap.json",
        "pnpm-lock.yaml",
        "yarn.lock",
        "Cargo.lock",
        "composer.lock",
    }
)

# Third-party code, whose requirements are not those of the repository.
_VENDORED = frozenset({"node_modules", "bower_components", "vendor", "site-packages", ".venv"})


def detect_kind(path: str) -> str | None:
    """The kind of manifest, or None for other files."""
    directory, _, name = path.rpartition("/")
    if name in READERS:
        kind = name
    elif name.endswith(".txt") and _is_requirements(directory, name):
        kind = "requirements.txt"
    else:
        return None
    return None if directory and not _VENDORED.isdisjoint(directory.split("/")) else kind


def _is_requirements(directory: str, name: str) -> bool:
    stem = name[:-4]
    if stem.startswith("requirements") or stem.endswith(
        ("-requirements", "_requirements", ".requirements")
    ):
        return True
    # In a directory `requirements`, every text file is one, except constraints files.
    return directory.rpartition("/")[2] == "requirements" and "constraints" not in stem
