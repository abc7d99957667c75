package main

import (
	"bufio"
	"io"
)

// serveDeletions sends the paths that are gone, or are something else now.
func (s *supervisor) serveDeletions(c *channel, kind opening) {
	err := s.checkReadable(kind.Path)
	if baseline := s.trees.baseline(kind.Path); err == nil && baseline != nil {
		err = s.trees.listDeletions(c, kind.Path, baseline)
	}
	finishSending(c, err)
}

func (t *trees) listDeletions(to io.Writer, path string, baseline *node) error {
	root, err := openRoot(path, t.access)
	if err != nil {
		return err
	}
	defer root.close()
	buffered := bufio.NewWriterSize(to, maxDataBytes)
	if err := compare(buffered, root, "", baseline); err != nil {
		return err
	}
	return buffered.Flush()
}

func compare(to *bufio.Writer, d *directory, prefix string, before *node) error {
	for i := range before.children {
		if err := compareEntry(to, d, prefix, &before.children[i]); err != nil {
			return err
		}
	}
	return nil
}

func compareEntry(to *bufio.Writer, d *directory, prefix string, before *node) error {
	path := prefix + before.name
	status, err := d.status(before.name)
	if err != nil || fileType(status.Mode) != fileType(before.mode) {
		return listAll(to, path, before)
	}
	if !isDirectory(before.mode) {
		return nil
	}
	inner, err := d.enter(before.name, status)
	if err != nil {
		return err
	}
	defer inner.close()
	return compare(to, inner, path+"/", before)
}

func listAll(to *bufio.Writer, path string, before *node) error {
	if _, err := to.WriteString(path + "\x00"); err != nil {
		return err
	}
	for i := range before.children {
		if err := listAll(to, path+"/"+before.children[i].name, &before.children[i]); err != nil {
			return err
		}
	}
	return nil
}
