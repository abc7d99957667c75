package main

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// The kernel accepts no longer path, and the worker could not use one.
const maxPathBytes = 4095

// sendChanges sends the paths that are gone, each with a NUL at its end, an empty path, and a tar with
// what is new or has changed.
func (s *supervisor) sendChanges(to io.Writer, request *message) error {
	if s.currentState() == stateRunning {
		return errors.New("the agent is still running")
	}
	if !filepath.IsAbs(request.Path) {
		return fmt.Errorf("%q is not an absolute path", request.Path)
	}
	baseline := s.trees.baseline(request.Path)
	buffered := bufio.NewWriterSize(to, maxDataBytes)
	if err := s.trees.listDeletions(buffered, request.Path, baseline); err != nil {
		return err
	}
	if err := buffered.WriteByte(0); err != nil {
		return err
	}
	if err := s.trees.archive(buffered, request.Path, baseline, request.MaxFileBytes); err != nil {
		return err
	}
	return buffered.Flush()
}

// archiver writes the entries of one download.
type archiver struct {
	trees  *trees
	tar    *tar.Writer
	buffer []byte
	// The rest of a larger file is left out; 0 for none.
	maxFileBytes int64
}

func (t *trees) archive(to io.Writer, path string, baseline *node, maxFileBytes int64) error {
	root, err := openRoot(path, t.access)
	if err != nil {
		return err
	}
	defer root.close()
	a := &archiver{trees: t, tar: tar.NewWriter(to), buffer: make([]byte, maxDataBytes), maxFileBytes: maxFileBytes}
	if err := a.addDirectory(root, "", baseline); err != nil {
		return err
	}
	return a.tar.Close()
}

func (a *archiver) addDirectory(d *directory, prefix string, baseline *node) error {
	names, err := d.names()
	if err != nil {
		return fmt.Errorf("%q: %w", prefix, err)
	}
	for _, name := range names {
		if err := a.add(d, prefix, name, baseline.child(name)); err != nil {
			return err
		}
	}
	return nil
}

func (a *archiver) add(d *directory, prefix, name string, before *node) error {
	path := prefix + name
	if len(path) > maxPathBytes {
		return fmt.Errorf("a path in the tree is longer than %d bytes: %.100q…", maxPathBytes, path)
	}
	status, err := d.status(name)
	if err != nil {
		return fmt.Errorf("%q: %w", path, err)
	}
	switch fileType(status.Mode) {
	case syscall.S_IFDIR:
		return a.addTree(d, path, name, status, before)
	case syscall.S_IFREG, syscall.S_IFLNK:
		if before != nil && before.mode == a.trees.access.mode(status) && before.digest == a.trees.digest(d, name, status) {
			return nil
		}
		if fileType(status.Mode) == syscall.S_IFLNK {
			return a.addLink(d, path, name, status)
		}
		return a.addFile(d, path, name, status)
	}
	if before == nil || isDirectory(before.mode) {
		return nil
	}
	// Skipping it would delete the file that was there. The worker refuses it.
	return a.tar.WriteHeader(a.header(tar.TypeFifo, path, status))
}

func (a *archiver) addTree(d *directory, path, name string, status *syscall.Stat_t, before *node) error {
	if before != nil && !isDirectory(before.mode) {
		before = nil
	}
	if mode := a.trees.access.mode(status); before == nil || before.mode != mode {
		if err := a.tar.WriteHeader(a.header(tar.TypeDir, path+"/", status)); err != nil {
			return err
		}
	}
	inner, err := d.enter(name, status)
	if err != nil {
		return fmt.Errorf("%q: %w", path, err)
	}
	defer inner.close()
	return a.addDirectory(inner, path+"/", before)
}

func (a *archiver) addLink(d *directory, path, name string, status *syscall.Stat_t) error {
	target, err := d.readLink(name)
	if err != nil {
		return fmt.Errorf("%q: %w", path, err)
	}
	header := a.header(tar.TypeSymlink, path, status)
	header.Linkname = target
	return a.tar.WriteHeader(header)
}

func (a *archiver) addFile(d *directory, path, name string, status *syscall.Stat_t) error {
	header := a.header(tar.TypeReg, path, status)
	file, err := d.openFile(name, status)
	if err != nil {
		return fmt.Errorf("%q: %w", path, err)
	}
	defer file.Close()
	header.Size = status.Size
	if a.maxFileBytes > 0 && header.Size > a.maxFileBytes {
		header.Size = a.maxFileBytes
	}
	if err := a.tar.WriteHeader(header); err != nil {
		return err
	}
	return a.copyContent(file, header.Size)
}

func (a *archiver) copyContent(file *os.File, size int64) error {
	for size > 0 {
		part := a.buffer
		if int64(len(part)) > size {
			part = part[:size]
		}
		n, err := file.Read(part)
		if err != nil {
			return err
		}
		if _, err := a.tar.Write(part[:n]); err != nil {
			return err
		}
		size -= int64(n)
	}
	return nil
}

func (a *archiver) header(kind byte, path string, status *syscall.Stat_t) *tar.Header {
	return &tar.Header{
		Format:   tar.FormatGNU,
		Typeflag: kind,
		Name:     path,
		Mode:     int64(a.trees.access.mode(status) & 0o7777),
		ModTime:  time.Unix(status.Mtim.Sec, 0),
	}
}
