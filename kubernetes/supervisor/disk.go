package main

import (
	"syscall"
	"time"
)

const (
	blockBytes = 512
	// What a file costs besides its content, so that empty files count too.
	fileBytes = 1024
	// The trees are measured again when free space shrank by this fraction of the limit.
	firstFraction = 16
	minFraction   = 64
	// And at least this often: some file systems do not show their free space.
	maxUnmeasured = 10 * time.Second
	// Deeper directories are not entered: each level holds a descriptor.
	maxDepth = 1024
)

// diskGauge measures all paths on disk together: free space often, the trees rarely.
type diskGauge struct {
	limit uint64
	paths []string
	stop  <-chan struct{}

	free              map[uint64]uint64
	lost              uint64
	lostSinceMeasured uint64
	measureAfter      uint64
	measureBy         time.Time
}

func newDiskGauge(limit uint64, paths []string, stop <-chan struct{}) gauge {
	g := &diskGauge{limit: limit, paths: paths, stop: stop, measureAfter: limit / firstFraction}
	g.free = g.readFree()
	g.measureBy = time.Now().Add(maxUnmeasured)
	return g
}

func (g *diskGauge) exceededLimit() string {
	g.countLostSpace()
	if g.lostSinceMeasured < g.measureAfter && time.Now().Before(g.measureBy) {
		return ""
	}
	begin := time.Now()
	used := g.measure()
	g.lostSinceMeasured = 0
	pause := time.Since(begin) * 10 * pauseFactor
	if pause < maxUnmeasured {
		pause = maxUnmeasured
	}
	g.measureBy = time.Now().Add(pause)
	if used > g.limit {
		return "workspace"
	}
	g.measureAfter = (g.limit - used) / 2
	if least := g.limit / minFraction; g.measureAfter < least {
		g.measureAfter = least
	}
	return ""
}

// countLostSpace works in small steps, so that space which others free in between hides at most one.
func (g *diskGauge) countLostSpace() {
	current := g.readFree()
	for device, free := range current {
		if before, isKnown := g.free[device]; isKnown && before > free {
			g.lost += before - free
			g.lostSinceMeasured += before - free
		}
	}
	g.free = current
}

// readFree returns the free space of each file system. Files that can still be created count too.
func (g *diskGauge) readFree() map[uint64]uint64 {
	free := make(map[uint64]uint64)
	for _, path := range g.paths {
		var status syscall.Stat_t
		var system syscall.Statfs_t
		if syscall.Stat(path, &status) == nil && syscall.Statfs(path, &system) == nil {
			free[uint64(status.Dev)] = system.Bfree*uint64(system.Bsize) + system.Ffree*fileBytes
		}
	}
	return free
}

func (g *diskGauge) measure() uint64 {
	usage := &treeUsage{stop: g.stop, counted: make(map[inode]bool), isComplete: true}
	for _, path := range g.paths {
		usage.addPath(path)
	}
	deleted := findDeletedFiles(devicesOf(g.paths), g.stop)
	used := usage.bytes + deleted.bytes
	// What could not be read may hold all the space that was lost.
	if !(usage.isComplete && deleted.isComplete()) && g.lost > used {
		return g.lost
	}
	return used
}
