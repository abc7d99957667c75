"""Builds everything that a release consists of, and signs it.

The commit must be clean and have the tag of the version. The same commit gives the same bytes; only
the signature differs.
"""

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path

import dist
import install

PARTS = ("runtime", "dependencies", "worker", "kubernetes")
SUMS = "SHA256SUMS"
NAMESPACE = "file"
PRINCIPAL = "releases@agentjobs"
SIGNERS = Path("packaging") / "allowed_signers"


class Refused(Exception):
    """Nothing was built; the message says what to do."""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("target", help="the directory that the files replace")
    options.add_argument(
        "--key", default="", help="the SSH key that signs, or its .pub in an agent"
    )
    options.add_argument("--image-args", default="", help="options for building the images")
    arguments = options.parse_args()
    os.umask(0o022)
    directory = Path(arguments.target).resolve()
    try:
        version = check_source(install.PROJECT)
        check_key(arguments.key, install.PROJECT / SIGNERS)
        with dist.replacement_of(directory) as partial:
            build(partial, version, arguments.image_args)
            sign(partial, arguments.key, install.PROJECT / SIGNERS)
    except Refused as error:
        sys.exit(f"release: {error}")
    for path in sorted(directory.iterdir()):
        print(path)


def check_source(project: Path) -> str:
    """The version, if this commit is its release."""
    if changes := _git(project, "status", "--porcelain").splitlines():
        raise Refused(f"the tree has uncommitted changes ({changes[0].strip()}): commit them first")
    version = _version(project)
    tags = _git(project, "tag", "--points-at", "HEAD", "v*").split()
    if f"v{version}" not in tags:
        problem = f"has the tag {tags[0]}" if tags else f"has no tag v{version}"
        is_released = _git(project, "tag", "--list", f"v{version}")
        remedy = "check that tag out" if is_released else f"run `git tag -s v{version}`"
        raise Refused(
            f"the version is {version}, but the commit {problem}: {remedy}, or change the version"
        )
    changelog = (project / "CHANGELOG.md").read_text(encoding="utf-8")
    if not re.search(
        rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", changelog, re.MULTILINE
    ):
        raise Refused(f"CHANGELOG.md has no section `## [{version}] - DATE`: add it")
    return version


def _version(project: Path) -> str:
    """The one version of all packages."""
    server = tomllib.loads((project / "service/pyproject.toml").read_text())["project"]
    places = {
        "clients/python/pyproject.toml": r'^version = "(.+)"$',
        "clients/python/src/agentjobs_client/version.py": r'^__version__ = "(.+)"$',
        "clients/typescript/package.json": r'^  "version": "(.+)",$',
        "service/pyproject.toml": r'^  "agentjobs-client~=(.+)",$',
        **{f"{part}/pyproject.toml": r'^version = "(.+)"$' for part in PARTS},
    }
    version: str = server["version"]
    for name, pattern in places.items():
        match = re.search(pattern, (project / name).read_text(), re.MULTILINE)
        if match is None or match[1] != version:
            other = match[1] if match else "none"
            raise Refused(f"the version is {version}, but {name} has {other}: change one of them")
    return version


def check_key(key: str, signers: Path) -> None:
    if not key:
        raise Refused("name the SSH key that signs: make release KEY=~/.ssh/id_ed25519")
    fingerprint = _run("ssh-keygen", "-l", "-f", str(Path(key).expanduser())).stdout.split()[1:2]
    if not fingerprint:
        raise Refused(f"{key} is not an SSH key that can be read: name another one")
    for public in re.findall(r"^[^#].*?(\S+ AAAA\S+)", signers.read_text(), re.MULTILINE):
        if _run("ssh-keygen", "-l", "-f", "-", input=public).stdout.split()[1:2] == fingerprint:
            return
    raise Refused(f"{SIGNERS} does not have the key {key}: add it, as docs/releasing.md says")


def build(directory: Path, version: str, image_args: str = "") -> None:
    import sbom  # noqa: PLC0415 - takes seconds, which a refusal need not wait for

    dist.build(directory)
    packages = {
        sbom.SERVER: directory / f"agentjobs-{version}-py3-none-any.whl",
        **{
            f"agentjobs-{part}": directory / f"agentjobs_{part}-{version}-py3-none-any.whl"
            for part in ("client", *PARTS)
        },
        sbom.NPM_CLIENT: directory / f"agentjobs-client-{version}.tgz",
    }
    lock = (install.PROJECT / "requirements.lock").read_text()
    (directory / f"agentjobs-{version}-requirements.txt").write_text(lock)
    epoch = int(dist.source_date_epoch())
    document = sbom.render_sbom(lock, version, packages, epoch)
    (directory / f"agentjobs-{version}.cdx.json").write_text(document)
    if shutil.which("buildah"):
        build_images(directory, version, image_args, epoch)
    else:
        print("release: without the images, because buildah is not installed", file=sys.stderr)
    write_sums(directory)


def build_images(directory: Path, version: str, image_args: str, epoch: int) -> None:
    service, agent = f"localhost/agentjobs:{version}", f"localhost/agentjobs-agent:{version}"
    names = (f"IMAGE={service}", f"AGENT_IMAGE={agent}")
    dist.run(["make", "image", *names, f"IMAGE_ARGS={image_args}"], install.PROJECT)
    archive_image(service, directory / f"agentjobs-{version}-image.tar", epoch)
    archive_image(agent, directory / f"agentjobs-{version}-agent-image.tar", epoch)


def archive_image(name: str, archive: Path, epoch: int) -> None:
    """An OCI layout in a tar file, as `podman load` and `skopeo copy oci-archive:` read it."""
    with tempfile.TemporaryDirectory() as temporary:
        layout = Path(temporary) / "layout"
        dist.run(["buildah", "push", name, f"oci:{layout}:{name}"], install.PROJECT)
        with tarfile.open(archive, "w", format=tarfile.PAX_FORMAT) as tar:
            for path in sorted(layout.rglob("*")):
                if path.is_file():
                    entry = tarfile.TarInfo(str(path.relative_to(layout)))
                    entry.size, entry.mtime = path.stat().st_size, epoch
                    with path.open("rb") as content:
                        tar.addfile(entry, content)


def write_sums(directory: Path) -> None:
    lines = []
    for path in sorted(directory.iterdir()):
        with path.open("rb") as content:
            lines.append(f"{hashlib.file_digest(content, 'sha256').hexdigest()}  {path.name}\n")
    (directory / SUMS).write_text("".join(lines))


def sign(directory: Path, key: str, signers: Path) -> None:
    """Writes SHA256SUMS.sig, and checks it as a user would."""
    sums = directory / SUMS
    path = str(Path(key).expanduser())
    # It may ask for a passphrase.
    command = ["ssh-keygen", "-q", "-Y", "sign", "-f", path, "-n", NAMESPACE, str(sums)]
    if subprocess.run(command).returncode:
        raise Refused(f"{key} did not sign, see above")
    verify = ("-Y", "verify", "-f", str(signers), "-I", PRINCIPAL, "-n", NAMESPACE)
    checked = _run("ssh-keygen", *verify, "-s", f"{sums}.sig", input=sums.read_text())
    if checked.returncode:
        raise Refused(f"the signature does not verify: {checked.stdout}{checked.stderr}".strip())


def _run(*command: str, input: str = "") -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, input=input, capture_output=True, text=True)
    except FileNotFoundError:
        raise Refused(f"{command[0]} is not installed: install git and openssh-client") from None


def _git(project: Path, *arguments: str) -> str:
    process = _run("git", "-C", str(project), *arguments)
    if process.returncode:
        raise Refused(f"git {arguments[0]} failed: {process.stderr.strip()}")
    return process.stdout


if __name__ == "__main__":
    main()
