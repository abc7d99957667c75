package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"
)

const (
	instructionBytes = 8
	maxInstructions  = 4096

	bpfLoad        = 0x20
	bpfJumpEqual   = 0x15
	bpfJumpAtLeast = 0x35
	bpfReturn      = 0x06
	seccompAllow   = 0x7FFF0000
	seccompErrno   = 0x00050000
	offsetNumber   = 0
	offsetArch     = 4
	offsetFirstLo  = 16
	offsetSecondLo = 24
)

type sockFprog struct {
	length uint16
	filter *byte
}

// applyFilters restricts the system calls of this thread, for good.
func applyFilters(filter []byte) error {
	if err := prctl(prSetNoNewPrivs, 1, 0); err != nil {
		return fmt.Errorf("no_new_privs cannot be set: %w", err)
	}
	for _, program := range [][]byte{supervisorGuard(os.Getpid()), filter} {
		if len(program) == 0 {
			continue
		}
		if len(program)%instructionBytes != 0 || len(program) > maxInstructions*instructionBytes {
			return errors.New("the system call filter is not a BPF program")
		}
		if err := setFilter(program); err != nil {
			return fmt.Errorf("the system call filter cannot be applied: %w", err)
		}
	}
	return nil
}

func setFilter(program []byte) error {
	fprog := &sockFprog{length: uint16(len(program) / instructionBytes), filter: &program[0]}
	err := prctl(prSetSeccomp, seccompFilter, uintptr(unsafe.Pointer(fprog)))
	runtime.KeepAlive(fprog)
	return err
}

// supervisorGuard refuses calls with which an agent, which has the same user, could take memory,
// descriptors or processor time away from the supervisor. The supervisor's threads are older than the
// process `agent`, so their numbers are lower.
func supervisorGuard(agent int) []byte {
	const next, limits, priority, scheduling, compare, refuse, allow = 0, 9, 11, 15, 16, 18, 19
	return assemble([]instruction{
		{bpfLoad, next, next, offsetArch},
		{bpfJumpEqual, next, allow, auditArchitecture},
		{bpfLoad, next, next, offsetNumber},
		{bpfJumpEqual, limits, next, sysPrlimit},
		{bpfJumpEqual, priority, next, syscall.SYS_SETPRIORITY},
		{bpfJumpEqual, scheduling, next, syscall.SYS_SCHED_SETPARAM},
		{bpfJumpEqual, scheduling, next, syscall.SYS_SCHED_SETSCHEDULER},
		{bpfJumpEqual, scheduling, next, syscall.SYS_SCHED_SETAFFINITY},
		{bpfJumpEqual, scheduling, allow, sysSchedSetattr},
		// limits: only those of the caller.
		{bpfLoad, next, next, offsetFirstLo},
		{bpfJumpEqual, allow, refuse, 0},
		// priority: not of all processes of the user.
		{bpfLoad, next, next, offsetFirstLo},
		{bpfJumpEqual, refuse, next, syscall.PRIO_USER},
		{bpfLoad, next, next, offsetSecondLo},
		{bpfJumpEqual, compare, compare, 0},
		// scheduling
		{bpfLoad, next, next, offsetFirstLo},
		// compare
		{bpfJumpEqual, allow, next, 0},
		{bpfJumpAtLeast, allow, refuse, uint32(agent)},
		{bpfReturn, next, next, seccompErrno | uint32(syscall.EPERM)},
		{bpfReturn, next, next, seccompAllow},
	})
}

// instruction jumps to others by their index; 0 means the next one.
type instruction struct {
	code    uint16
	yes, no int
	value   uint32
}

func assemble(program []instruction) []byte {
	encoded := make([]byte, 0, len(program)*instructionBytes)
	for index, i := range program {
		encoded = append(encoded, byte(i.code), byte(i.code>>8), distance(index, i.yes), distance(index, i.no))
		var value [4]byte
		binary.LittleEndian.PutUint32(value[:], i.value)
		encoded = append(encoded, value[:]...)
	}
	return encoded
}

func distance(from, to int) byte {
	if to == 0 {
		return 0
	}
	return byte(to - from - 1)
}
