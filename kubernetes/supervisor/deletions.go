package main

import "bufio"

// listDeletions writes the paths that are gone, or are something else now.
func (t *trees) listDeletions(to *bufio.Writer, path string, baseline *node) error {
	if baseline == nil {
		return nil
	}
	root, err := openRoot(path, t.access)
	if err != nil {
		return err
	}
	defer root.close()
	return compare(to, root, "", baseline)
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
