"""Whether this user can use the data directory and the configuration file, and what to do."""

import errno
import os
import pwd
from pathlib import Path

DATABASE_FILE = "agentjobs.db"
_CHOOSE = "choose another one with --data-dir or AGENTJOBS_DATA_DIR"


def create_data_directory(path: Path) -> str | None:
    """Create it, readable only by its owner. Returns what is wrong with it."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        return _explain_missing(path, error)
    return find_access_problem(path)


def find_access_problem(path: Path) -> str | None:
    """Why this user cannot use the data directory, which may not exist yet."""
    try:
        return _find_access_problem(path)
    except OSError as error:
        return _explain_missing(path, error)


def find_other_owner(path: Path) -> str | None:
    """Who owns the data directory, if it is another user."""
    try:
        return None if path.stat().st_uid == os.geteuid() else _owner(path)
    except OSError:
        return None


def explain_unreadable_file(path: Path, error: OSError) -> str:
    """For the configuration file."""
    if isinstance(error, NotADirectoryError):
        return f"{path.parent} is not a directory: {_CHOOSE}"
    if isinstance(error, IsADirectoryError):
        return f"{path} is a directory, and must be a file"
    if not isinstance(error, PermissionError):
        return f"{path} cannot be read ({error.strerror})"
    blocked = path
    for parent in path.absolute().parents:
        if os.access(parent, os.X_OK):
            break
        # Whether the file exists is not known then.
        blocked = parent
    return f"{path} cannot be read: {_explain_owner(blocked)}"


def _find_access_problem(path: Path) -> str | None:
    if not path.exists():
        existing = next(parent for parent in path.absolute().parents if parent.exists())
        if not os.access(existing, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return None
    if not path.is_dir():
        raise NotADirectoryError
    if os.statvfs(path).f_flag & os.ST_RDONLY:
        return f"the data directory {path} is on a read-only file system: {_CHOOSE}"
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        return f"the data directory cannot be used: {_explain_owner(path)}, or {_CHOOSE}"
    database = path / DATABASE_FILE
    if database.exists() and not os.access(database, os.R_OK | os.W_OK):
        return (
            f"{database} belongs to {_owner(database)}, and this is {_user()}: run `sudo chown -R"
            f" {_user()} {path}`, and use the same user for all commands"
        )
    return None


def _explain_missing(path: Path, error: OSError) -> str:
    if isinstance(error, FileExistsError | NotADirectoryError):
        return f"the data directory {path} is not a directory: {_CHOOSE}"
    remedy = _CHOOSE
    if isinstance(error, PermissionError):
        remedy = f"run `sudo install -d -m 700 -o {_user()} {path}`, or {_CHOOSE}"
    return f"the data directory {path} cannot be created ({error.strerror}): {remedy}"


def _explain_owner(path: Path) -> str:
    owner, user = _owner(path), _user()
    if owner == user:
        return f"the permissions of {path} exclude its owner {owner}: run `chmod u+rwX {path}`"
    sudo = "sudo" if owner == "root" else f"sudo -u {owner}"
    return (
        f"{path} belongs to {owner}, and this is {user}: run the command as {owner} (`{sudo} …`),"
        f" or give {user} access"
    )


def _owner(path: Path) -> str:
    return _name(path.stat().st_uid)


def _user() -> str:
    return _name(os.geteuid())


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"#{uid}"
