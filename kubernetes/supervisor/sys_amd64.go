package main

import "syscall"

const (
	architecture      = "x86_64"
	sysFstatat        = syscall.SYS_NEWFSTATAT
	auditArchitecture = 0xC000003E
	sysPrlimit        = syscall.SYS_PRLIMIT64
	sysSchedSetattr   = 314
)
