package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// The kernel accepts no longer path, and the worker could not use one.
const maxPathBytes = 4095

// What a change is. The worker refuses special files.
const (
	changedFile      = 'F'
	changedDirectory = 'D'
	changedLink      = 'L'
	removedPath      = 'R'
	specialFile      = 'S'
)

// sendChanges sends what is gone, and then what is new or has changed.
func (s *supervisor) sendChanges(to io.Writer, request *message) error {
	if s.currentState() == stateRunning {
		return errors.New("the agent is still running")
	}
	if !filepath.IsAbs(request.Path) {
		return fmt.Errorf("%q is not an absolute path", request.Path)
	}
	return s.trees.sendChanges(to, request.Path, request.MaxFileBytes)
}

func (t *trees) sendChanges(to io.Writer, path string, maxFileBytes int64) error {
	root, err := openRoot(path, t.access)
	if err != nil {
		return err
	}
	defer root.close()
	c := &changes{trees: t, to: bufio.NewWriterSize(to, maxDataBytes), buffer: make([]byte, maxDataBytes), maxFileBytes: maxFileBytes}
	baseline := t.baseline(path)
	if baseline != nil {
		if err := c.compare(root, "", baseline); err != nil {
			return err
		}
	}
	if err := c.addDirectory(root, "", baseline); err != nil {
		return err
	}
	return c.to.Flush()
}

// changes writes those of one directory.
type changes struct {
	trees  *trees
	to     *bufio.Writer
	buffer []byte
	// The rest of a larger file is left out; 0 for none.
	maxFileBytes int64
}

// write is followed by the content of a file.
func (c *changes) write(kind byte, path, target string, mode uint32, size, seconds int64) error {
	header := append(c.buffer[:0], kind)
	header = binary.BigEndian.AppendUint32(header, mode&0o7777)
	header = binary.BigEndian.AppendUint64(header, uint64(size))
	header = binary.BigEndian.AppendUint64(header, uint64(seconds))
	header = binary.BigEndian.AppendUint16(header, uint16(len(path)))
	header = binary.BigEndian.AppendUint16(header, uint16(len(target)))
	_, err := c.to.Write(append(append(header, path...), target...))
	return err
}

func (c *changes) addDirectory(d *directory, prefix string, baseline *node) error {
	names, err := d.names()
	if err != nil {
		return fmt.Errorf("%q: %w", prefix, err)
	}
	for _, name := range names {
		if err := c.add(d, prefix, name, baseline.child(name)); err != nil {
			return err
		}
	}
	return nil
}

func (c *changes) add(d *directory, prefix, name string, before *node) error {
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
		return c.addTree(d, path, name, status, before)
	case syscall.S_IFREG, syscall.S_IFLNK:
		if before != nil && before.mode == c.trees.access.mode(status) && before.digest == c.trees.digest(d, name, status) {
			return nil
		}
		if fileType(status.Mode) == syscall.S_IFLNK {
			return c.addLink(d, path, name, status)
		}
		return c.addFile(d, path, name, status)
	}
	if before == nil || isDirectory(before.mode) {
		return nil
	}
	// Skipping it would delete the file that was there. The worker refuses it.
	return c.write(specialFile, path, "", 0, 0, 0)
}

func (c *changes) addTree(d *directory, path, name string, status *syscall.Stat_t, before *node) error {
	if before != nil && !isDirectory(before.mode) {
		before = nil
	}
	if mode := c.trees.access.mode(status); before == nil || before.mode != mode {
		if err := c.write(changedDirectory, path, "", mode, 0, 0); err != nil {
			return err
		}
	}
	inner, err := d.enter(name, status)
	if err != nil {
		return fmt.Errorf("%q: %w", path, err)
	}
	defer inner.close()
	return c.addDirectory(inner, path+"/", before)
}

func (c *changes) addLink(d *directory, path, name string, status *syscall.Stat_t) error {
	target, err := d.readLink(name)
	if err != nil {
		return fmt.Errorf("%q: %w", path, err)
	}
	return c.write(changedLink, path, target, 0, 0, status.Mtim.Sec)
}

func (c *changes) addFile(d *directory, path, name string, status *syscall.Stat_t) error {
	file, err := d.openFile(name, status)
	if err != nil {
		return fmt.Errorf("%q: %w", path, err)
	}
	defer file.Close()
	size := status.Size
	if c.maxFileBytes > 0 && size > c.maxFileBytes {
		size = c.maxFileBytes
	}
	if err := c.write(changedFile, path, "", c.trees.access.mode(status), size, status.Mtim.Sec); err != nil {
		return err
	}
	return c.copyContent(file, size)
}

func (c *changes) copyContent(file *os.File, size int64) error {
	for size > 0 {
		part := c.buffer
		if int64(len(part)) > size {
			part = part[:size]
		}
		n, err := file.Read(part)
		if err != nil {
			return err
		}
		if _, err := c.to.Write(part[:n]); err != nil {
			return err
		}
		size -= int64(n)
	}
	return nil
}
