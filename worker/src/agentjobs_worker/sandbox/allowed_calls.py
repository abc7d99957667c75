"""The system calls that agents may make: see decision 17 for the builds that they were measured on.

Calls with conditions are in `seccomp`. A call that is in neither fails with ENOSYS.
"""

_ALLOWED = """
accept accept4 bind connect getpeername getsockname getsockopt listen recvfrom recvmmsg recvmsg
sendmmsg sendmsg sendto shutdown

access chdir chown close close_range copy_file_range dup dup2 dup3 faccessat faccessat2 fadvise64
fallocate fchdir fchown fchownat fcntl fdatasync fgetxattr flistxattr flock fremovexattr fsetxattr
fstat fstatfs fsync ftruncate futimesat getcwd getdents getdents64 getxattr lchown lgetxattr link
linkat listxattr llistxattr lremovexattr lseek lsetxattr lstat newfstatat pipe pipe2 pread64 preadv
preadv2 pwrite64 pwritev pwritev2 read readahead readlink readlinkat readv removexattr rename
renameat renameat2 rmdir sendfile setxattr splice stat statfs statx symlink symlinkat sync
sync_file_range syncfs truncate umask unlink unlinkat utime utimensat utimes write writev

brk madvise map_shadow_stack membarrier mincore mlock mlock2 mlockall mmap mprotect mremap
mseal msync munlock munlockall munmap pkey_alloc pkey_free pkey_mprotect get_mempolicy
set_mempolicy

epoll_create epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 epoll_wait eventfd eventfd2
inotify_add_watch inotify_init inotify_init1 inotify_rm_watch poll ppoll pselect6 select signalfd
signalfd4 timerfd_create timerfd_gettime timerfd_settime

arch_prctl capget capset execve execveat exit exit_group fork getcpu getegid geteuid getgid
getgroups getpgid getpgrp getpid getppid getpriority getresgid getresuid getrlimit getrusage getsid
gettid getuid kill pidfd_open pidfd_send_signal prctl prlimit64 restart_syscall
sched_get_priority_max sched_get_priority_min sched_getaffinity sched_getattr sched_getparam
sched_getscheduler sched_rr_get_interval sched_setaffinity sched_setattr sched_setparam
sched_setscheduler sched_yield setgid setgroups setpgid setpriority setregid setresgid
setresuid setreuid setrlimit setsid setuid tgkill tkill vfork wait4 waitid

futex futex_requeue futex_wait futex_waitv futex_wake get_robust_list rseq set_robust_list
set_tid_address pause rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn
rt_sigsuspend rt_sigtimedwait rt_tgsigqueueinfo sigaltstack

alarm clock_getres clock_gettime clock_nanosleep getitimer gettimeofday nanosleep setitimer time
timer_create timer_delete timer_getoverrun timer_gettime timer_settime times

getrandom sysinfo uname

mq_getsetattr mq_notify mq_timedreceive mq_timedsend mq_unlink msgctl msgrcv msgsnd semctl semop
semtimedop shmat shmctl shmdt
"""
# Known calls that fail as they do for a user without privileges. They create or join a namespace,
# mount, inspect other processes, load code into the kernel, change the machine, or use features
# that had vulnerabilities before.
_REFUSED = """
mount umount2 pivot_root chroot move_mount open_tree open_tree_attr fsopen fsconfig fsmount fspick
mount_setattr unshare setns
ptrace process_vm_readv process_vm_writev kcmp pidfd_getfd
add_key request_key keyctl
bpf perf_event_open userfaultfd fanotify_init lookup_dcookie syslog
io_uring_setup io_uring_enter io_uring_register memfd_secret
init_module finit_module delete_module create_module query_module
kexec_load kexec_file_load reboot swapon swapoff acct
quotactl quotactl_fd nfsservctl name_to_handle_at open_by_handle_at
iopl ioperm modify_ldt uselib vhangup
adjtimex clock_adjtime clock_settime settimeofday sethostname setdomainname
"""
ALLOWED = frozenset(_ALLOWED.split())
REFUSED = frozenset(_REFUSED.split())
