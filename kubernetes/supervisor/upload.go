package main

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"syscall"
)

// receiveUpload extracts a tar below a directory.
func (s *supervisor) receiveUpload(from io.Reader, request *message) error {
	err := receiveFiles(from, request.Path)
	if err == nil && request.Track {
		s.trees.track(request.Path)
	}
	return err
}

func receiveFiles(from io.Reader, path string) error {
	if !filepath.IsAbs(path) {
		return fmt.Errorf("%q is not an absolute path", path)
	}
	e, err := newExtractor(path)
	if err != nil {
		return err
	}
	defer e.close()
	buffered := bufio.NewReaderSize(from, maxDataBytes)
	if err := e.extract(tar.NewReader(buffered)); err != nil {
		return err
	}
	// The padding after the archive, up to the end.
	_, err = io.Copy(io.Discard, buffered)
	return err
}

// extractor writes the entries of one upload. Directories stay writable until all are written.
type extractor struct {
	// Open directories from the root of the upload to that of the last entry.
	path        []string
	descriptors []int
	// By path. A later entry of the same directory replaces the earlier one.
	directories map[string]*tar.Header
	// For a directory on the way to an entry.
	open   func(parent int, name string) (int, error)
	buffer []byte
}

func newExtractor(path string) (*extractor, error) {
	descriptor, err := openat(atFDCWD, path, openDirectory&^syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &extractor{
		descriptors: []int{descriptor},
		directories: make(map[string]*tar.Header),
		open:        openOrCreate,
		buffer:      make([]byte, maxDataBytes),
	}, nil
}

func (e *extractor) close() {
	for _, descriptor := range e.descriptors {
		syscall.Close(descriptor)
	}
}

func (e *extractor) extract(archive *tar.Reader) error {
	for {
		header, err := archive.Next()
		if err == io.EOF {
			return e.finishDirectories()
		}
		if err != nil {
			return fmt.Errorf("the archive cannot be read: %w", err)
		}
		if err := e.add(header, archive); err != nil {
			return fmt.Errorf("%q: %w", header.Name, err)
		}
	}
}

func (e *extractor) add(header *tar.Header, content io.Reader) error {
	parents, name, err := splitName(header.Name)
	if err != nil || name == "" {
		return err
	}
	parent, err := e.enter(parents)
	if err != nil {
		return err
	}
	switch header.Typeflag {
	case tar.TypeDir:
		return e.addDirectory(parent, parents, name, header)
	case tar.TypeReg, tar.TypeGNUSparse:
		return e.addFile(parent, name, header, content)
	case tar.TypeSymlink:
		return e.addLink(parent, name, header)
	case tar.TypeLink:
		return e.addHardLink(parents, name, header.Linkname)
	}
	// A workspace may contain a FIFO or a socket, which nothing needs.
	return nil
}

// splitName refuses names that lead out of the directory. The root itself has an empty name.
func splitName(name string) (parents []string, last string, err error) {
	if strings.HasPrefix(name, "/") || strings.ContainsRune(name, 0) {
		return nil, "", errors.New("not a relative path")
	}
	var parts []string
	for _, part := range strings.Split(name, "/") {
		switch part {
		case "", ".":
		case "..":
			return nil, "", errors.New("the path leads out of the directory")
		default:
			parts = append(parts, part)
		}
	}
	if len(parts) == 0 {
		return nil, "", nil
	}
	return parts[:len(parts)-1], parts[len(parts)-1], nil
}

// enter opens the directories on the way to an entry.
func (e *extractor) enter(parents []string) (int, error) {
	shared := 0
	for shared < len(parents) && shared < len(e.path) && parents[shared] == e.path[shared] {
		shared++
	}
	e.leave(shared)
	for _, name := range parents[shared:] {
		parent := e.descriptors[len(e.descriptors)-1]
		descriptor, err := e.open(parent, name)
		if err != nil {
			return 0, err
		}
		e.descriptors = append(e.descriptors, descriptor)
		e.path = append(e.path, name)
	}
	return e.descriptors[len(e.descriptors)-1], nil
}

func (e *extractor) leave(depth int) {
	for _, descriptor := range e.descriptors[depth+1:] {
		syscall.Close(descriptor)
	}
	e.descriptors = e.descriptors[:depth+1]
	e.path = e.path[:depth]
}

func openOrCreate(parent int, name string) (int, error) {
	descriptor, err := openat(parent, name, openDirectory, 0)
	if err != syscall.ENOENT {
		return descriptor, err
	}
	if err := syscall.Mkdirat(parent, name, 0o755); err != nil {
		return 0, err
	}
	return openat(parent, name, openDirectory, 0)
}
