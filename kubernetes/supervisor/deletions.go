package main

// compare writes the paths that are gone, or are something else now.
func (c *changes) compare(d *directory, prefix string, before *node) error {
	for i := range before.children {
		if err := c.compareEntry(d, prefix, &before.children[i]); err != nil {
			return err
		}
	}
	return nil
}

func (c *changes) compareEntry(d *directory, prefix string, before *node) error {
	path := prefix + before.name
	status, err := d.status(before.name)
	if err != nil || fileType(status.Mode) != fileType(before.mode) {
		return c.removeAll(path, before)
	}
	if !isDirectory(before.mode) {
		return nil
	}
	inner, err := d.enter(before.name, status)
	if err != nil {
		return err
	}
	defer inner.close()
	return c.compare(inner, path+"/", before)
}

func (c *changes) removeAll(path string, before *node) error {
	if err := c.write(removedPath, path, "", 0, 0, 0); err != nil {
		return err
	}
	for i := range before.children {
		if err := c.removeAll(path+"/"+before.children[i].name, &before.children[i]); err != nil {
			return err
		}
	}
	return nil
}
