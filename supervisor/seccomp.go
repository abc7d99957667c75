package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"syscall"
	"unsafe"
)

const (
	instructionBytes = 8
	maxInstructions  = 4096

	bpfLoad       = 0x20
	bpfJumpEqual  = 0x15
	bpfReturn     = 0x06
	seccompAllow  = 0x7FFF0000
	seccompErrno  = 0x00050000
	offsetNumber  = 0
	offsetArch    = 4
	offsetFirstLo = 16
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
	for _, program := range [][]byte{supervisorGuard(), filter} {
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

// supervisorGuard refuses prlimit of other processes: with the same user, an agent could take the
// supervisor's memory or descriptors away.
func supervisorGuard() []byte {
	type instruction struct {
		code    uint16
		yes, no uint8
		value   uint32
	}
	program := []instruction{
		{bpfLoad, 0, 0, offsetArch},
		{bpfJumpEqual, 0, 6, auditArchitecture},
		{bpfLoad, 0, 0, offsetNumber},
		{bpfJumpEqual, 0, 4, sysPrlimit},
		{bpfLoad, 0, 0, offsetFirstLo},
		{bpfJumpEqual, 0, 1, 0},
		{bpfReturn, 0, 0, seccompAllow},
		{bpfReturn, 0, 0, seccompErrno | uint32(syscall.EPERM)},
		{bpfReturn, 0, 0, seccompAllow},
	}
	encoded := make([]byte, 0, len(program)*instructionBytes)
	for _, i := range program {
		encoded = append(encoded, byte(i.code), byte(i.code>>8), i.yes, i.no)
		var value [4]byte
		binary.LittleEndian.PutUint32(value[:], i.value)
		encoded = append(encoded, value[:]...)
	}
	return encoded
}
