package main

import (
	"bufio"
	"fmt"
	"io"
	"path/filepath"
	"syscall"
)

// removePaths removes what an earlier command deleted of a layer: paths below a directory, each with a
// NUL at its end.
func (s *supervisor) removePaths(from io.Reader, request *message) error {
	if !filepath.IsAbs(request.Path) {
		return fmt.Errorf("%q is not an absolute path", request.Path)
	}
	e, err := newExtractor(request.Path)
	if err != nil {
		return err
	}
	defer e.close()
	e.open = openExisting
	paths := bufio.NewReaderSize(from, maxDataBytes)
	for {
		path, err := paths.ReadString(0)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		// It may be below a directory that was removed before.
		if err := e.remove(path[:len(path)-1]); err != nil && err != syscall.ENOENT {
			return fmt.Errorf("%q: %w", path, err)
		}
	}
}

func (e *extractor) remove(path string) error {
	parents, name, err := splitName(path)
	if err != nil || name == "" {
		return err
	}
	parent, err := e.enter(parents)
	if err != nil {
		return err
	}
	var status syscall.Stat_t
	if err := syscall.Fstat(parent, &status); err != nil {
		return err
	}
	if mode := status.Mode & 0o7777; mode&writableMode != writableMode {
		_ = syscall.Fchmod(parent, mode|writableMode)
		defer syscall.Fchmod(parent, mode)
	}
	return removeTree(parent, name)
}

func openExisting(parent int, name string) (int, error) {
	return openat(parent, name, openDirectory, 0)
}
