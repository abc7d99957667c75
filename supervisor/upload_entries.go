package main

import (
	"archive/tar"
	"io"
	"syscall"
)

const (
	createFile   = syscall.O_WRONLY | syscall.O_CREAT | syscall.O_EXCL | syscall.O_NOFOLLOW | syscall.O_CLOEXEC
	writableMode = 0o700
)

func (e *extractor) addDirectory(parent int, name string, header *tar.Header) error {
	err := syscall.Mkdirat(parent, name, writableMode)
	if err == syscall.EEXIST {
		err = e.keepDirectory(parent, name)
	}
	if err == nil {
		e.directories = append(e.directories, header)
	}
	return err
}

// keepDirectory uses the one that exists. Anything else with that name is replaced.
func (e *extractor) keepDirectory(parent int, name string) error {
	var status syscall.Stat_t
	if err := fstatat(parent, name, &status); err != nil {
		return err
	}
	if isDirectory(status.Mode) {
		return syscall.Fchmodat(parent, name, status.Mode&0o7777|writableMode, 0)
	}
	if err := unlinkat(parent, name, 0); err != nil {
		return err
	}
	return syscall.Mkdirat(parent, name, writableMode)
}

func (e *extractor) addFile(parent int, name string, header *tar.Header, content io.Reader) error {
	mode := uint32(header.Mode) & 0o7777
	descriptor, err := openat(parent, name, createFile, mode)
	if err == syscall.EEXIST {
		if err := removeTree(parent, name); err != nil {
			return err
		}
		descriptor, err = openat(parent, name, createFile, mode)
	}
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
	err := symlinkat(header.Linkname, parent, name)
	if err == syscall.EEXIST {
		if err := removeTree(parent, name); err != nil {
			return err
		}
		err = symlinkat(header.Linkname, parent, name)
	}
	if err != nil {
		return err
	}
	return setTime(parent, name, header.ModTime.Unix())
}

// addHardLink leaves the directory of the entry to find the other name, and returns to it.
func (e *extractor) addHardLink(name string, parents []string, target string) error {
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
	err = linkat(source, targetName, parent, name)
	if err == syscall.EEXIST {
		if err := removeTree(parent, name); err != nil {
			return err
		}
		err = linkat(source, targetName, parent, name)
	}
	return err
}

// finishDirectories sets modes and times, of inner directories first.
func (e *extractor) finishDirectories() error {
	for i := len(e.directories) - 1; i >= 0; i-- {
		header := e.directories[i]
		parents, name, err := splitName(header.Name)
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
		if err := syscall.Fchmodat(parent, name, uint32(header.Mode)&0o7777, 0); err != nil {
			return err
		}
	}
	return nil
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
