package main

import (
	"archive/tar"
	"fmt"
	"io"
	"os"
	"sort"
	"strings"
	"syscall"
)

const (
	createFile   = syscall.O_WRONLY | syscall.O_CREAT | syscall.O_EXCL | syscall.O_NOFOLLOW | syscall.O_CLOEXEC
	writableMode = 0o700
)

func (e *extractor) addDirectory(parent int, parents []string, name string, header *tar.Header) error {
	isOwn := true
	err := syscall.Mkdirat(parent, name, writableMode)
	if err == syscall.EEXIST {
		isOwn, err = keepDirectory(parent, name)
	}
	if err == nil && isOwn {
		e.directories[strings.Join(append(parents, name), "/")] = header
	}
	return err
}

// keepDirectory uses the one that exists, which may be a volume of the pod and then belongs to root.
// Anything else with that name is replaced.
func keepDirectory(parent int, name string) (isOwn bool, err error) {
	var status syscall.Stat_t
	if err := fstatat(parent, name, &status); err != nil {
		return false, err
	}
	if isDirectory(status.Mode) {
		if int(status.Uid) != os.Geteuid() {
			return false, nil
		}
		return true, syscall.Fchmodat(parent, name, status.Mode&0o7777|writableMode, 0)
	}
	if err := unlinkat(parent, name, 0); err != nil {
		return false, err
	}
	return true, syscall.Mkdirat(parent, name, writableMode)
}

func (e *extractor) addFile(parent int, name string, header *tar.Header, content io.Reader) error {
	mode := uint32(header.Mode) & 0o7777
	var descriptor int
	err := e.create(parent, name, func() (err error) {
		descriptor, err = openat(parent, name, createFile, mode)
		return err
	})
	if err != nil {
		return err
	}
	err = e.copyContent(descriptor, content)
	if err == nil && mode&^0o777 != 0 {
		// Writing removes the setuid bit.
		err = syscall.Fchmod(descriptor, mode)
	}
	if closeErr := syscall.Close(descriptor); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	return setTime(parent, name, header.ModTime.Unix())
}

func (e *extractor) copyContent(descriptor int, content io.Reader) error {
	for {
		n, err := content.Read(e.buffer)
		for data := e.buffer[:n]; len(data) > 0; {
			written, err := syscall.Write(descriptor, data)
			if err != nil && err != syscall.EINTR {
				return err
			}
			if written > 0 {
				data = data[written:]
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (e *extractor) addLink(parent int, name string, header *tar.Header) error {
	err := e.create(parent, name, func() error { return symlinkat(header.Linkname, parent, name) })
	if err != nil {
		return err
	}
	return setTime(parent, name, header.ModTime.Unix())
}

// addHardLink leaves the directory of the entry to find the other name, and returns to it.
func (e *extractor) addHardLink(parents []string, name, target string) error {
	targetParents, targetName, err := splitName(target)
	if err != nil {
		return err
	}
	source, err := e.enter(targetParents)
	if err != nil {
		return err
	}
	if source, err = syscall.Dup(source); err != nil {
		return err
	}
	defer syscall.Close(source)
	syscall.CloseOnExec(source)
	parent, err := e.enter(parents)
	if err != nil {
		return err
	}
	return e.create(parent, name, func() error { return linkat(source, targetName, parent, name) })
}

// create replaces what has the same name.
func (e *extractor) create(parent int, name string, attempt func() error) error {
	err := attempt()
	if err != syscall.EEXIST {
		return err
	}
	if err := removeTree(parent, name); err != nil {
		return err
	}
	e.forget(strings.Join(append(e.path, name), "/"))
	return attempt()
}

// forget is called for what is no longer a directory.
func (e *extractor) forget(path string) {
	for directory := range e.directories {
		if directory == path || strings.HasPrefix(directory, path+"/") {
			delete(e.directories, directory)
		}
	}
}

// finishDirectories sets modes and times, of inner directories first.
func (e *extractor) finishDirectories() error {
	paths := make([]string, 0, len(e.directories))
	for path := range e.directories {
		paths = append(paths, path)
	}
	sort.Sort(sort.Reverse(sort.StringSlice(paths)))
	for _, path := range paths {
		if err := e.finishDirectory(path, e.directories[path]); err != nil {
			return fmt.Errorf("%q: %w", path, err)
		}
	}
	return nil
}

func (e *extractor) finishDirectory(path string, header *tar.Header) error {
	parents, name, err := splitName(path)
	if err != nil {
		return err
	}
	parent, err := e.enter(parents)
	if err != nil {
		return err
	}
	if err := setTime(parent, name, header.ModTime.Unix()); err != nil {
		return err
	}
	return syscall.Fchmodat(parent, name, uint32(header.Mode)&0o7777, 0)
}

// removeTree makes room for an entry of another kind, or another version of it.
func removeTree(parent int, name string) error {
	err := unlinkat(parent, name, 0)
	if err != syscall.EISDIR && err != syscall.EPERM {
		return err
	}
	var status syscall.Stat_t
	if err := fstatat(parent, name, &status); err != nil {
		return err
	}
	outer := &directory{descriptor: parent, access: newAccess(false)}
	_ = syscall.Fchmodat(parent, name, writableMode, 0)
	inner, err := outer.enter(name, &status)
	if err != nil {
		return err
	}
	defer inner.close()
	names, err := inner.names()
	for i := 0; err == nil && i < len(names); i++ {
		err = removeTree(inner.descriptor, names[i])
	}
	if err != nil {
		return err
	}
	return unlinkat(parent, name, atRemoveDir)
}
