package main

import "syscall"

// treeUsage adds up a hostile tree while it changes.
type treeUsage struct {
	bytes      uint64
	isComplete bool
	stop       <-chan struct{}
	// Files with several names.
	counted map[inode]bool
}

// addPath also takes a single file, such as the one for the runtime's last message.
func (u *treeUsage) addPath(path string) {
	var status syscall.Stat_t
	if syscall.Lstat(path, &status) != nil {
		return
	}
	if !isDirectory(status.Mode) {
		u.bytes += uint64(status.Blocks) * blockBytes
		return
	}
	if root, err := openRoot(path, newAccess(true)); err == nil {
		u.add(root, maxDepth)
		root.close()
	}
}

func (u *treeUsage) add(d *directory, levels int) {
	u.bytes += fileBytes
	if levels == 0 {
		u.isComplete = false
		return
	}
	names, err := d.names()
	if err != nil {
		u.isComplete = false
	}
	for _, name := range names {
		if u.isStopped() {
			return
		}
		if status, err := d.status(name); err == nil {
			u.count(d, name, status, levels)
		}
	}
}

func (u *treeUsage) count(d *directory, name string, status *syscall.Stat_t, levels int) {
	if isDirectory(status.Mode) {
		inner, err := d.enter(name, status)
		if err != nil {
			u.isComplete = u.isComplete && isGone(err)
			return
		}
		u.add(inner, levels-1)
		inner.close()
		return
	}
	if status.Nlink > 1 && fileType(status.Mode) == syscall.S_IFREG {
		if u.counted[inodeOf(status)] {
			return
		}
		u.counted[inodeOf(status)] = true
	}
	u.bytes += uint64(status.Blocks)*blockBytes + fileBytes
}

func (u *treeUsage) isStopped() bool {
	select {
	case <-u.stop:
		return true
	default:
		return false
	}
}
