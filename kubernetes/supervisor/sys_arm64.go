package main

import "syscall"

const (
	architecture      = "aarch64"
	sysFstatat        = syscall.SYS_FSTATAT
	auditArchitecture = 0xC00000B7
	sysPrlimit        = syscall.SYS_PRLIMIT64
	sysSchedSetattr   = 274
)
