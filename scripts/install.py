"""Creates a virtual environment from a lock file and installs this repository's packages into it.

Runs with the system's Python before anything is installed, so it uses only the standard library.
"""

import ast
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
PACKAGES = tuple(
    PROJECT / folder
    for folder in ("clients/python", "runtime", "dependencies", "worker", "kubernetes", "service")
)
OLDEST_PYTHON = (3, 11)
WITHOUT_PROJECT = "--without-project"

if sys.version_info < OLDEST_PYTHON:
    # Before anything that an older Python cannot run.
    sys.exit(
        f"install: {sys.executable} is Python {sys.version.split()[0]}, but "
        f"{'.'.join(map(str, OLDEST_PYTHON))} or newer is required. Choose another one: "
        "make PYTHON=/path/to/python3.11 …"
    )

Command = list[str]


def main(venv: str, lock: str, *options: str) -> None:
    environment = PROJECT / venv
    with_project = WITHOUT_PROJECT not in options
    make_environment(environment, with_pip=with_project)
    python = str(environment / "bin" / "python")
    lock_path = PROJECT / lock
    # Installing pip takes seconds, so other environments use the running Python's.
    pip = [python, "-m", "pip"] if with_project else [sys.executable, "-m", "pip"]
    # Some packages are installed only for their data.
    flags = [option for option in options if option == "--no-deps"]
    uv = find_uv(python, lock_path)
    if uv:
        installer = [*uv, "pip", "install", "--quiet", "--python", python, *flags]
        settings = {**uv_settings(pip_settings(pip)), **os.environ}
        if install(installer, lock_path, settings, with_project):
            return
        print("uv could not install the lock file; trying pip", file=sys.stderr)
    installer = [*pip, "--python", python, "install", "--quiet", "--disable-pip-version-check"]
    installer += flags
    if not install(installer, lock_path, dict(os.environ), with_project):
        sys.exit(f"install: {lock} could not be installed; see the messages above")


def make_environment(environment: Path, with_pip: bool) -> None:
    if works(environment / "bin" / "python", with_pip):
        return
    try:
        import ensurepip  # noqa: F401, PLC0415 - Debian packages it separately
        import venv  # noqa: PLC0415 - Debian ships Python without it
    except ImportError:
        version = "{}.{}".format(*sys.version_info)
        sys.exit(
            "install: this Python cannot create virtual environments. Run this command, then run "
            f"make again:\n\n  sudo apt-get install -y python{version}-venv"
        )
    venv.create(environment, clear=environment.exists(), with_pip=with_pip)


def works(python: Path, with_pip: bool) -> bool:
    """False if the environment is missing, or if its Python was removed or upgraded."""
    check = ["-m", "pip", "--version"] if with_pip else ["-c", ""]
    try:
        return subprocess.run([python, *check], capture_output=True).returncode == 0
    except OSError:
        return False


def find_uv(python: str, lock: Path) -> Command | None:
    """The locked uv, installed by pip, which is configured for this machine's package index.

    For a lock file without uv, the one of the running Python.
    """
    block = re.search(r"^uv==(\S+).*?(?=^\S)", lock.read_text() + "\n#", re.MULTILINE | re.DOTALL)
    if not block:
        running = [sys.executable, "-m", "uv"]
        is_installed = subprocess.run([*running, "--version"], capture_output=True).returncode == 0
        return running if is_installed else None
    locked = [python, "-m", "uv"]
    version = subprocess.run([*locked, "--version"], capture_output=True, text=True)
    if version.stdout.split()[1:2] == [block[1]]:
        return locked
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as requirements:
        requirements.write(block[0])
        requirements.flush()
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        process = subprocess.run([*pip, "--no-deps", "--require-hashes", "-r", requirements.name])
    return locked if process.returncode == 0 else None


def install(installer: Command, lock: Path, environ: dict[str, str], with_project: bool) -> bool:
    locked = [*installer, "--require-hashes", "-r", str(lock)]
    # The lock file contains the build backend, so building needs neither isolation nor a network.
    packages = [*installer, "--no-deps", "--no-build-isolation"]
    for path in PACKAGES:
        packages += ["--editable", str(path)]
    steps = (locked, packages) if with_project else (locked,)
    return all(subprocess.run(step, env=environ).returncode == 0 for step in steps)


def pip_settings(pip: Command) -> dict[str, str]:
    """pip's settings: the environment overrides `[install]`, which overrides `[global]`."""
    process = subprocess.run([*pip, "config", "list"], capture_output=True, text=True)
    sections: dict[str, dict[str, str]] = {}
    for line in process.stdout.splitlines():
        name, _, value = line.partition("=")
        section, _, key = name.rpartition(".")
        sections.setdefault(section, {})[key] = str(ast.literal_eval(value))
    return {
        **sections.get("global", {}),
        **sections.get("install", {}),
        **sections.get(":env:", {}),
    }


def uv_settings(pip: dict[str, str]) -> dict[str, str]:
    """uv does not read pip's settings; these determine where packages come from."""
    lists = {key: " ".join(pip.get(key, "").split()) for key in ("extra-index-url", "find-links")}
    settings = {
        "UV_DEFAULT_INDEX": pip.get("index-url", ""),
        "UV_INDEX": lists["extra-index-url"],
        "UV_FIND_LINKS": lists["find-links"].replace(" ", ","),
        "UV_NO_INDEX": "1" if pip.get("no-index", "") in ("1", "true", "yes", "on") else "",
        "UV_INSECURE_HOST": pip.get("trusted-host", ""),
        "SSL_CERT_FILE": pip.get("cert", ""),
        # Like pip, uv searches every index; the hashes determine the right file.
        "UV_INDEX_STRATEGY": "unsafe-best-match",
    }
    return {name: value for name, value in settings.items() if value}


if __name__ == "__main__":
    main(*sys.argv[1:])
