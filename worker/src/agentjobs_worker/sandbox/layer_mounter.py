"""A separate program that mounts the layers of a sandbox and becomes bwrap.

Mounts are in a namespace of its own, so they end with its process. Needs nothing but the standard
library and `image_preparation`.
"""

from __future__ import annotations

import ctypes
import marshal
import os
import resource
import stat
import sys

from agentjobs_worker.sandbox.image_preparation import DIRECTORY, prepare_image

# Importing `typing` takes as long as a sandbox takes to start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import NoReturn

    from agentjobs_worker.sandbox.layers import Overlay, Plan

_CLONE_NEWNS = 0x00020000
_CLONE_NEWUSER = 0x10000000
_MS_NOSUID, _MS_NODEV, _MS_BIND, _MS_REC, _MS_SLAVE = 0x2, 0x4, 0x1000, 0x4000, 0x80000
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
_OPEN_TREE_CLONE = 1
_MOVE_MOUNT_F_EMPTY_PATH = 0x4
_AT_FDCWD, _AT_EMPTY_PATH = -100, 0x1000
_MOUNT_ATTR_IDMAP = 0x00100000
_STAGING_OPTIONS = "mode=0755,size=1m"
# `nofollow`: what a sandbox left in a directory that is shared later must not redirect a name to
# another file. `volatile`: otherwise the end of each sandbox would flush the whole file system.
_OVERLAY_OPTIONS = "redirect_dir=nofollow,metacopy=off,index=off,xino=off,volatile"
_SIG_DFL = None
_IGNORED_BY_PYTHON = (13, 25)  # SIGPIPE and SIGXFSZ; importing `signal` takes long, too
_OOM_SCORE_FILE = "/proc/self/oom_score_adj"

_libc = ctypes.CDLL(None, use_errno=True)


def main(plan_descriptor: int) -> NoReturn:
    try:
        _run(_read_plan(plan_descriptor))
    except OSError as error:
        sys.exit(str(error))


def _run(plan: Plan) -> NoReturn:
    is_root = os.geteuid() == 0
    _raise_oom_score(plan["oom_score"])
    _enter_namespaces(plan, is_root=is_root)
    # Opened before the staging directory hides what it is mounted over.
    overlays = [(overlay, _open_overlay(overlay)) for overlay in plan["overlays"]]
    binds = [(name, _open(path)) for name, path in plan["binds"].items()]
    read_only = _kinds(plan["root"]["read_only"] if plan["root"] is not None else ())
    _mount("tmpfs", plan["staging"], "tmpfs", _MS_NOSUID | _MS_NODEV, _STAGING_OPTIONS)
    os.chdir(plan["staging"])
    mapped = _MappedMounts(plan["uid"], plan["gid"])
    for overlay, (lower, upper, work) in overlays:
        shown = mapped.mount(lower, overlay["lower_uid"], f"lower-{overlay['name']}")
        _mount_overlay(overlay, (shown, upper, work), is_root=is_root)
    for name, source in binds:
        _bind(name, source)
    if plan["root"] is not None:
        prepare_image(plan["root"], read_only, plan["uid"], plan["gid"])
    os.chdir("/")
    if is_root:
        os.setgroups([])
        os.setresgid(plan["gid"], plan["gid"], plan["gid"])
        os.setresuid(plan["uid"], plan["uid"], plan["uid"])
    _set_limits(plan["rlimits"])
    for number in _IGNORED_BY_PYTHON:
        _libc.signal(number, _SIG_DFL)
    # As an ordinary user, this gives up the capabilities in the new user namespace.
    os.execv(plan["argv"][0], plan["argv"])  # noqa: S606 - there is no shell to be avoided


def _raise_oom_score(score: str) -> None:
    """Raise it while root still may. It may already be higher, as in some containers."""
    try:  # noqa: SIM105 - importing contextlib takes milliseconds
        _write(_OOM_SCORE_FILE, score)
    except PermissionError:
        pass


def _enter_namespaces(plan: Plan, *, is_root: bool) -> None:
    flags = _CLONE_NEWNS if is_root else _CLONE_NEWNS | _CLONE_NEWUSER
    _check(_libc.unshare(flags), "create a namespace")
    if not is_root:
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{plan['uid']} {plan['uid']} 1")
        _write("/proc/self/gid_map", f"{plan['gid']} {plan['gid']} 1")
    _mount("none", "/", "", _MS_REC | _MS_SLAVE)


def _open_overlay(overlay: Overlay) -> tuple[int, int, int]:
    lower, upper, work = (
        _open(path, DIRECTORY) for path in (overlay["lower"], overlay["upper"], overlay["work"])
    )
    return lower, upper, work


def _open(path: str, flags: int = os.O_PATH) -> int:
    return os.open(path, flags | os.O_CLOEXEC)


def _mount_overlay(overlay: Overlay, descriptors: tuple[int, int, int], *, is_root: bool) -> None:
    os.mkdir(overlay["name"])
    # Descriptors instead of paths, which may contain commas and which /proc shows to the agent.
    lower, upper, work = map(_path, descriptors)
    options = f"lowerdir={lower},upperdir={upper},workdir={work},{_OVERLAY_OPTIONS}"
    # Nobody but root may write trusted attributes, and no agent is root.
    options += "" if is_root else ",userxattr"
    what = f"mount a layer over {overlay['lower']} with {overlay['upper']}"
    _mount("overlay", overlay["name"], "overlay", _MS_NOSUID | _MS_NODEV, options, what)


def _bind(name: str, source: int) -> None:
    if stat.S_ISDIR(os.fstat(source).st_mode):
        os.mkdir(name)
    else:
        os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC))
    _mount(_path(source), name, "", _MS_BIND | _MS_REC)


class _MappedMounts:
    """Mounts that show the files of another user as those of the agent."""

    def __init__(self, uid: int, gid: int) -> None:
        self._uid = uid
        self._gid = gid
        self._namespaces: dict[int, int] = {}

    def mount(self, directory: int, uid: int | None, name: str) -> int:
        """The directory itself if nothing is to be mapped."""
        if uid in (None, self._uid):
            return directory
        assert uid is not None
        if uid not in self._namespaces:
            self._namespaces[uid] = self._namespace(uid)
        flags = _AT_EMPTY_PATH | _OPEN_TREE_CLONE | os.O_CLOEXEC
        tree = _check(_libc.syscall(_OPEN_TREE, directory, b"", flags), "clone a mount")
        attributes = (ctypes.c_uint64 * 4)(_MOUNT_ATTR_IDMAP, 0, 0, self._namespaces[uid])
        size = ctypes.c_size_t(ctypes.sizeof(attributes))
        result = _libc.syscall(_MOUNT_SETATTR, tree, b"", _AT_EMPTY_PATH, attributes, size)
        _check(result, "map the owner of a layer")
        os.mkdir(name)
        target = (_AT_FDCWD, os.fsencode(name), _MOVE_MOUNT_F_EMPTY_PATH)
        _check(_libc.syscall(_MOVE_MOUNT, tree, b"", *target), "attach a mount")
        return _open(name)

    def _namespace(self, uid: int) -> int:
        """A user namespace that no process enters: only its mapping is used."""
        ready_read, ready_write = os.pipe()
        go_read, go_write = os.pipe()
        child = os.fork()
        if child == 0:
            status = _libc.unshare(_CLONE_NEWUSER)
            os.write(ready_write, b"1" if status == 0 else b"0")
            os.close(go_write)
            os.read(go_read, 1)
            os._exit(0)
        if os.read(ready_read, 1) != b"1":
            raise OSError("cannot create a user namespace")
        _write(f"/proc/{child}/uid_map", f"{uid} {self._uid} 1")
        _write(f"/proc/{child}/gid_map", f"{uid} {self._gid} 1")
        namespace = os.open(f"/proc/{child}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
        os.write(go_write, b"1")
        for descriptor in (ready_read, ready_write, go_read, go_write):
            os.close(descriptor)
        os.waitpid(child, 0)
        return namespace


def _set_limits(rlimits: Mapping[int, int]) -> None:
    """Set the limits before anything of an image runs: its shell might not set them."""
    for kind, value in rlimits.items():
        _, hard = resource.getrlimit(kind)
        limit = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (limit, limit))


def _kinds(paths: Sequence[str]) -> dict[str, bool]:
    """Whether each path is a directory."""
    return {path: stat.S_ISDIR(os.stat(path).st_mode) for path in paths}


def _mount(
    source: str, target: str, kind: str, flags: int, options: str = "", what: str = ""
) -> None:
    arguments = (os.fsencode(text) for text in (source, target, kind))
    result = _libc.mount(*arguments, ctypes.c_ulong(flags), os.fsencode(options))
    _check(result, what or f"mount {target}")


def _path(descriptor: int) -> str:
    return f"/proc/self/fd/{descriptor}"


def _write(path: str, content: str) -> None:
    with open(path, "w") as file:
        file.write(content)


def _check(result: int, what: str) -> int:
    if result < 0:
        raise OSError(f"cannot {what}: {os.strerror(ctypes.get_errno())}")
    return result


def _read_plan(descriptor: int) -> Plan:
    with open(descriptor, "rb") as file:
        plan: Plan = marshal.load(file)  # noqa: S302 - from the service
    return plan
