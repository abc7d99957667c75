"""Which paths are manifests, by name alone, and who reads each kind."""

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
# How the path of any manifest ends.
ENDINGS = (".txt", *(name for name in READERS if not name.endswith(".txt")))

# What tools write grows with the packages; these have bounds of their own.
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

# What others wrote and brought along is not what this repository asks for.
_FOREIGN = frozenset({"node_modules", "bower_components", "vendor", "site-packages", ".venv"})


def kind_of(path: str) -> str | None:
    """The kind of manifest a path names, by its file name alone."""
    directory, _, name = path.rpartition("/")
    if name in READERS:
        kind = name
    elif name.endswith(".txt") and _is_requirements(directory, name):
        kind = "requirements.txt"
    else:
        return None
    return None if directory and not _FOREIGN.isdisjoint(directory.split("/")) else kind


def _is_requirements(directory: str, name: str) -> bool:
    stem = name[:-4]
    if stem.startswith("requirements") or stem.endswith(
        ("-requirements", "_requirements", ".requirements")
    ):
        return True
    # In a directory of that name every text file is one, but for what only constrains others.
    return directory.rpartition("/")[2] == "requirements" and "constraints" not in stem
