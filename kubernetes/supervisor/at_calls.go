package main

import (
	"syscall"
	"unsafe"
)

func openat(parent int, name string, flags int, mode uint32) (int, error) {
	for {
		descriptor, err := syscall.Openat(parent, name, flags, mode)
		if err != syscall.EINTR {
			return descriptor, err
		}
	}
}

func fstatat(parent int, name string, status *syscall.Stat_t) error {
	pointer, err := syscall.BytePtrFromString(name)
	if err != nil {
		return err
	}
	_, _, errno := syscall.Syscall6(sysFstatat, uintptr(parent), uintptr(unsafe.Pointer(pointer)),
		uintptr(unsafe.Pointer(status)), atSymlinkNoFollow, 0, 0)
	return errorOf(errno)
}

func unlinkat(parent int, name string, flags int) error {
	pointer, err := syscall.BytePtrFromString(name)
	if err != nil {
		return err
	}
	_, _, errno := syscall.Syscall(syscall.SYS_UNLINKAT, uintptr(parent), uintptr(unsafe.Pointer(pointer)), uintptr(flags))
	return errorOf(errno)
}

func symlinkat(target string, parent int, name string) error {
	from, err := syscall.BytePtrFromString(target)
	if err != nil {
		return err
	}
	to, err := syscall.BytePtrFromString(name)
	if err != nil {
		return err
	}
	_, _, errno := syscall.Syscall(syscall.SYS_SYMLINKAT, uintptr(unsafe.Pointer(from)), uintptr(parent), uintptr(unsafe.Pointer(to)))
	return errorOf(errno)
}

func linkat(oldParent int, oldName string, newParent int, newName string) error {
	from, err := syscall.BytePtrFromString(oldName)
	if err != nil {
		return err
	}
	to, err := syscall.BytePtrFromString(newName)
	if err != nil {
		return err
	}
	_, _, errno := syscall.Syscall6(syscall.SYS_LINKAT, uintptr(oldParent), uintptr(unsafe.Pointer(from)),
		uintptr(newParent), uintptr(unsafe.Pointer(to)), 0, 0)
	return errorOf(errno)
}

// setTime sets the time of the last change, also of a link itself.
func setTime(parent int, name string, seconds int64) error {
	pointer, err := syscall.BytePtrFromString(name)
	if err != nil {
		return err
	}
	times := [2]syscall.Timespec{{Sec: seconds}, {Sec: seconds}}
	_, _, errno := syscall.Syscall6(syscall.SYS_UTIMENSAT, uintptr(parent), uintptr(unsafe.Pointer(pointer)),
		uintptr(unsafe.Pointer(&times)), atSymlinkNoFollow, 0, 0)
	return errorOf(errno)
}

func errorOf(errno syscall.Errno) error {
	if errno != 0 {
		return errno
	}
	return nil
}
