package main

import (
	"os"
	"sort"
	"sync"
	"syscall"
	"unsafe"
)

const (
	openDirectory = syscall.O_RDONLY | syscall.O_DIRECTORY | syscall.O_NOFOLLOW | syscall.O_CLOEXEC
	ownerReads    = 0o400
	ownerEnters   = 0o500
)

type inode struct{ device, number uint64 }

func inodeOf(status *syscall.Stat_t) inode {
	return inode{uint64(status.Dev), status.Ino}
}

// access makes directories and files readable that the agent made unreadable for its own user, and
// remembers the modes that the agent gave them.
type access struct {
	// While the agent runs, a directory gets its mode back when it is closed.
	restores bool

	mutex sync.Mutex
	modes map[inode]uint32
}

func newAccess(restores bool) *access {
	return &access{restores: restores, modes: make(map[inode]uint32)}
}

func (a *access) grant(parent int, name string, status *syscall.Stat_t, bits uint32) (isGranted bool) {
	if status.Mode&bits == bits || int(status.Uid) != os.Geteuid() {
		return false
	}
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if _, isKnown := a.modes[inodeOf(status)]; !isKnown && !a.restores {
		a.modes[inodeOf(status)] = status.Mode
	}
	return syscall.Fchmodat(parent, name, status.Mode&0o7777|bits, 0) == nil
}

// mode is the agent's.
func (a *access) mode(status *syscall.Stat_t) uint32 {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if mode, isKnown := a.modes[inodeOf(status)]; isKnown {
		return mode
	}
	return status.Mode
}

// directory is an open one. Everything in it is named relative to its descriptor, so that no link
// of the agent is followed.
type directory struct {
	descriptor int
	access     *access
	// What the agent's mode was, if it has to be restored.
	restored *uint32
}

func openRoot(path string, a *access) (*directory, error) {
	current := &directory{descriptor: atFDCWD, access: a}
	status, err := current.status(path)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return current.enter(path, status)
}

func (d *directory) close() {
	if d.restored != nil {
		d.restoreMode()
	}
	syscall.Close(d.descriptor)
}

func (d *directory) restoreMode() {
	var status syscall.Stat_t
	if syscall.Fstat(d.descriptor, &status) != nil {
		return
	}
	// Unless the agent has changed it since.
	if status.Mode&0o7777 == *d.restored&0o7777|ownerEnters {
		_ = syscall.Fchmod(d.descriptor, *d.restored&0o7777)
	}
}

func (d *directory) enter(name string, status *syscall.Stat_t) (*directory, error) {
	isGranted := os.Geteuid() != 0 && d.access.grant(d.descriptor, name, status, ownerEnters)
	descriptor, err := openat(d.descriptor, name, openDirectory, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	inner := &directory{descriptor: descriptor, access: d.access}
	if isGranted && d.access.restores {
		mode := status.Mode
		inner.restored = &mode
	}
	return inner, nil
}

// names are sorted.
func (d *directory) names() ([]string, error) {
	descriptor, err := openat(d.descriptor, ".", openDirectory, 0)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(descriptor), ".")
	defer file.Close()
	names, err := file.Readdirnames(-1)
	sort.Strings(names)
	return names, err
}

func (d *directory) status(name string) (*syscall.Stat_t, error) {
	status := &syscall.Stat_t{}
	return status, fstatat(d.descriptor, name, status)
}

// openFile opens a regular file. It never blocks: a FIFO could be there.
func (d *directory) openFile(name string, status *syscall.Stat_t) (*os.File, error) {
	const flags = syscall.O_RDONLY | syscall.O_NOFOLLOW | syscall.O_NONBLOCK | syscall.O_CLOEXEC
	descriptor, err := openat(d.descriptor, name, flags, 0)
	if err == syscall.EACCES && d.access.grant(d.descriptor, name, status, ownerReads) {
		descriptor, err = openat(d.descriptor, name, flags, 0)
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(descriptor), name), nil
}

func (d *directory) readLink(name string) (string, error) {
	pointer, err := syscall.BytePtrFromString(name)
	if err != nil {
		return "", err
	}
	buffer := make([]byte, 4097)
	n, _, errno := syscall.Syscall6(syscall.SYS_READLINKAT, uintptr(d.descriptor),
		uintptr(unsafe.Pointer(pointer)), uintptr(unsafe.Pointer(&buffer[0])), uintptr(len(buffer)), 0, 0)
	if errno != 0 {
		return "", errno
	}
	return string(buffer[:n]), nil
}
