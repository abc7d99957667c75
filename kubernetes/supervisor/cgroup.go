package main

import (
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// The container's own cgroup, where the runtime mounts it: version 2, or else version 1.
const (
	eventsV2 = "/sys/fs/cgroup/memory.events"
	eventsV1 = "/sys/fs/cgroup/memory/memory.oom_control"
	cpuV2    = "/sys/fs/cgroup/cpu.stat"
	cpuV1    = "/sys/fs/cgroup/cpuacct/cpuacct.usage"

	cgroupMagic   = 0x27e0eb
	cgroup2Magic  = 0x63677270
	maxGroupBytes = 64 * 1024
)

// memoryGauge sees that the kernel killed a process of the agent for its memory.
type memoryGauge struct {
	kills uint64
}

func newMemoryGauge() gauge {
	return &memoryGauge{kills: countOOMKills()}
}

func (g *memoryGauge) exceededLimit() string {
	if countOOMKills() > g.kills {
		return "memory"
	}
	return ""
}

func countOOMKills() uint64 {
	for _, path := range []string{eventsV2, eventsV1} {
		if kills, isThere := readField(path, "oom_kill"); isThere {
			return kills
		}
	}
	return 0
}

// cgroupSeconds is the CPU time of all processes of the container.
func cgroupSeconds() (float64, bool) {
	if microseconds, isThere := readField(cpuV2, "usage_usec"); isThere {
		return float64(microseconds) / 1e6, true
	}
	content, err := readCgroupFile(cpuV1)
	if err != nil {
		return 0, false
	}
	nanoseconds, err := strconv.ParseUint(strings.TrimSpace(string(content)), 10, 64)
	return float64(nanoseconds) / 1e9, err == nil
}

// readField reads a file of lines with a name and a number.
func readField(path, name string) (uint64, bool) {
	content, err := readCgroupFile(path)
	if err != nil {
		return 0, false
	}
	for _, line := range strings.Split(string(content), "\n") {
		fields := strings.Fields(line)
		if len(fields) == 2 && fields[0] == name {
			value, err := strconv.ParseUint(fields[1], 10, 64)
			return value, err == nil
		}
	}
	return 0, false
}

// readCgroupFile reads files of the kernel only: an image can declare a volume in their place, where
// the agent writes what it likes.
func readCgroupFile(path string) ([]byte, error) {
	// Not to wait for a FIFO.
	descriptor, err := openat(atFDCWD, path, syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(descriptor), path)
	defer file.Close()
	var system syscall.Statfs_t
	if err := syscall.Fstatfs(descriptor, &system); err != nil {
		return nil, err
	}
	if system.Type != cgroupMagic && system.Type != cgroup2Magic {
		return nil, errors.New("not a file of a cgroup")
	}
	return io.ReadAll(io.LimitReader(file, maxGroupBytes))
}
