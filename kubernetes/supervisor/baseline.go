package main

import (
	"encoding/binary"
	"hash/maphash"
	"path/filepath"
	"sort"
	"sync"
	"syscall"
	"time"
)

// The clock of file times ticks at least this often.
const maxTick = 50 * time.Millisecond

// node is an entry of a tree as it was before the agent started.
type node struct {
	name string
	mode uint32
	// Of what changes with the content; 0 for directories.
	digest   uint64
	children []node
}

func (n *node) child(name string) *node {
	if n == nil {
		return nil
	}
	i := sort.Search(len(n.children), func(i int) bool { return n.children[i].name >= name })
	if i < len(n.children) && n.children[i].name == name {
		return &n.children[i]
	}
	return nil
}

// trees are the directories whose changes the worker wants.
type trees struct {
	// For reading after the agent's end.
	access *access
	seed   maphash.Seed

	mutex     sync.Mutex
	tracked   map[string]bool
	baselines map[string]*node
}

func newTrees() *trees {
	return &trees{
		access:    newAccess(false),
		seed:      maphash.MakeSeed(),
		tracked:   make(map[string]bool),
		baselines: make(map[string]*node),
	}
}

func (t *trees) track(path string) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.tracked[filepath.Clean(path)] = true
}

// baseline may be below a tracked directory. It is nil if nothing was there.
func (t *trees) baseline(path string) *node {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	path = filepath.Clean(path)
	below := []string{}
	for {
		if n, isTracked := t.baselines[path]; isTracked {
			for _, name := range below {
				n = n.child(name)
			}
			return n
		}
		if path == "/" {
			return nil
		}
		below = append([]string{filepath.Base(path)}, below...)
		path = filepath.Dir(path)
	}
}

func (t *trees) takeBaselines() error {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	latest := int64(0)
	for path := range t.tracked {
		root, err := openRoot(path, newAccess(true))
		if err != nil {
			return err
		}
		node := &node{}
		err = t.record(root, node, &latest)
		root.close()
		if err != nil {
			return err
		}
		t.baselines[path] = node
	}
	waitForTick(time.Duration(latest))
	return nil
}

// waitForTick makes sure that what the agent changes gets a later time.
func waitForTick(latest time.Duration) {
	for waited := time.Duration(0); waited < maxTick && coarseNow() <= latest; waited += time.Millisecond {
		time.Sleep(time.Millisecond)
	}
}

func (t *trees) record(d *directory, n *node, latest *int64) error {
	names, err := d.names()
	if err != nil {
		return err
	}
	n.children = make([]node, 0, len(names))
	for _, name := range names {
		status, err := d.status(name)
		if err != nil {
			return err
		}
		child := node{name: name, mode: status.Mode, digest: t.digest(d, name, status)}
		if changed := status.Ctim.Nano(); changed > *latest {
			*latest = changed
		}
		if isDirectory(status.Mode) {
			if err := t.recordDirectory(d, &child, status, latest); err != nil {
				return err
			}
		}
		n.children = append(n.children, child)
	}
	return nil
}

func (t *trees) recordDirectory(d *directory, n *node, status *syscall.Stat_t, latest *int64) error {
	inner, err := d.enter(n.name, status)
	if err != nil {
		return err
	}
	defer inner.close()
	return t.record(inner, n, latest)
}

// digest changes with everything that an agent can do to a file, because it cannot set `ctime`.
func (t *trees) digest(d *directory, name string, status *syscall.Stat_t) uint64 {
	if isDirectory(status.Mode) {
		return 0
	}
	var hash maphash.Hash
	hash.SetSeed(t.seed)
	for _, value := range []int64{status.Size, status.Mtim.Nano(), status.Ctim.Nano(), int64(status.Ino), int64(status.Dev)} {
		var encoded [8]byte
		binary.LittleEndian.PutUint64(encoded[:], uint64(value))
		_, _ = hash.Write(encoded[:])
	}
	if fileType(status.Mode) == syscall.S_IFLNK {
		target, _ := d.readLink(name)
		_, _ = hash.WriteString(target)
	}
	return hash.Sum64()
}

func fileType(mode uint32) uint32 {
	return mode & syscall.S_IFMT
}

func isDirectory(mode uint32) bool {
	return fileType(mode) == syscall.S_IFDIR
}
