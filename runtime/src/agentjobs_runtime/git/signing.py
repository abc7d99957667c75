"""SSH signatures of commits, as `git commit -S` makes them with `gpg.format=ssh`.

They are made in memory: the private key is in no file, no argument and no other process.
"""

import base64
import hashlib
import struct
import textwrap
from pathlib import Path
from typing import Self

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from agentjobs_runtime.git.process import git

MAX_KEY_CHARACTERS = 16 * 1024
# What a signature is for: it does not verify for anything else.
COMMITS = "git"

_ALGORITHM = b"ssh-ed25519"
_HASH = b"sha512"


class SigningKey:
    """An Ed25519 key, which every platform accepts for signatures."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key

    @classmethod
    def generate(cls) -> Self:
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def parse(cls, text: str) -> Self:
        """From the text of a private key file. Raises ValueError with a reason to show."""
        if len(text) > MAX_KEY_CHARACTERS or "PRIVATE KEY-----" not in text:
            raise ValueError("it is not a private key file")
        try:
            key = serialization.load_ssh_private_key(text.encode(), password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            # The exception is not shown: it may quote the key.
            raise ValueError("it cannot be read; it must not have a passphrase") from None
        if not isinstance(key, Ed25519PrivateKey):
            reason = "it is another kind of key; create one with `ssh-keygen -t ed25519`"
            raise ValueError(reason)  # noqa: TRY004 - the text is wrong, not the argument's type
        return cls(key)

    @property
    def private_text(self) -> str:
        return self._key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.OpenSSH,
            serialization.NoEncryption(),
        ).decode()

    @property
    def public_text(self) -> str:
        """A line as in `authorized_keys`, without a comment."""
        return self._public_bytes(
            serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
        ).decode()

    def sign(self, message: bytes, namespace: str) -> str:
        """The signature that `ssh-keygen -Y sign -n namespace` makes (PROTOCOL.sshsig)."""
        scope = _string(namespace.encode()) + _string(b"") + _string(_HASH)
        signed = b"SSHSIG" + scope + _string(hashlib.sha512(message).digest())
        signature = _string(_ALGORITHM) + _string(self._key.sign(signed))
        raw = serialization.Encoding.Raw, serialization.PublicFormat.Raw
        public_key = _string(_ALGORITHM) + _string(self._public_bytes(*raw))
        blob = b"SSHSIG" + struct.pack(">I", 1) + _string(public_key) + scope + _string(signature)
        lines = textwrap.fill(base64.b64encode(blob).decode(), 70)
        return f"-----BEGIN SSH SIGNATURE-----\n{lines}\n-----END SSH SIGNATURE-----\n"

    def _public_bytes(
        self, encoding: serialization.Encoding, form: serialization.PublicFormat
    ) -> bytes:
        return self._key.public_key().public_bytes(encoding, form)


def fingerprint(public_text: str) -> str:
    """The fingerprint as `ssh-keygen -l` prints it."""
    digest = hashlib.sha256(base64.b64decode(public_text.split()[1])).digest()
    return f"SHA256:{base64.b64encode(digest).rstrip(b'=').decode()}"


async def sign_commit(git_dir: Path, commit: str, key: SigningKey) -> str:
    """Write the same commit with a signature and return its name."""
    unsigned = (await git("cat-file", "commit", commit, git_dir=git_dir)).stdout
    # Repositories with SHA-256 have longer names and a header of their own.
    header = "gpgsig" if len(commit) == 40 else "gpgsig-sha256"
    signature = key.sign(unsigned, COMMITS).rstrip().replace("\n", "\n ")
    headers, blank_line, message = unsigned.partition(b"\n\n")
    content = headers + f"\n{header} {signature}".encode() + blank_line + message
    written = await git(
        *("hash-object", "-t", "commit", "-w", "--stdin"), git_dir=git_dir, input=content
    )
    return written.stdout.decode("ascii").strip()


def _string(value: bytes) -> bytes:
    return struct.pack(">I", len(value)) + value
