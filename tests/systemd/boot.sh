#!/bin/bash
# Boots systemd in namespaces of its own, over a copy of this machine's root directory that is thrown
# away. Arguments: a directory for the copy, and the project, which appears at /srv/agentjobs.
set -euo pipefail

if [ "${3:-}" != inside ]; then
  for hierarchy in /sys/fs/cgroup /sys/fs/cgroup/*/; do
    [ -w "$hierarchy/cgroup.procs" ] && mountpoint -q "$hierarchy" || continue
    mkdir -p "$hierarchy/agentjobs-systemd"
    # Those that systemd does not use may refuse it.
    echo $$ >"$hierarchy/agentjobs-systemd/cgroup.procs" || rmdir "$hierarchy/agentjobs-systemd"
  done
  exec unshare --pid --mount --uts --ipc --cgroup --fork --kill-child "$0" "$1" "$2" inside
fi

root=$1/root
mount --make-rprivate /
mkdir -p "$root" "$1/upper" "$1/work"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
mount --rbind /dev "$root/dev"
for directory in run tmp; do mount -t tmpfs -o mode=1777 tmpfs "$root/$directory"; done
if [ -f /sys/fs/cgroup/cgroup.controllers ]; then
  mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
else
  mount -t tmpfs -o mode=755 tmpfs "$root/sys/fs/cgroup"
  mkdir "$root/sys/fs/cgroup/"{unified,systemd}
  mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup/unified"
  mount -t cgroup -o none,name=systemd cgroup "$root/sys/fs/cgroup/systemd"
  for controller in cpu cpuacct memory pids devices; do
    mkdir "$root/sys/fs/cgroup/$controller"
    mount -t cgroup -o "$controller" cgroup "$root/sys/fs/cgroup/$controller" || true
  done
fi
mkdir -p "$root/srv/agentjobs" "$root/var/lib/agentjobs"
mount --bind -o ro "$2" "$root/srv/agentjobs"
# Environments need a file system that is no overlay.
mount -t tmpfs -o mode=0700 tmpfs "$root/var/lib/agentjobs"
rm -rf "$root/opt/agentjobs" "$root/etc/agentjobs"

# Nothing of this machine starts, and nothing in the copy is cleaned up.
units=$root/etc/systemd/system
rm -rf "${units:?}"/*
for unit in systemd-tmpfiles-setup systemd-tmpfiles-clean systemd-udevd systemd-udev-trigger systemd-logind; do
  ln -s /dev/null "$units/$unit.service"
done
ln -s /lib/systemd/system/basic.target "$units/default.target"

cd "$root"
mkdir -p old
pivot_root . old
umount -l /old
exec env -i container=other PATH="$PATH" /lib/systemd/systemd --system --log-target=console </dev/null
