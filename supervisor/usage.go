package main

import (
	"os"
	"strconv"
	"strings"
)

const exceededMemory = "memory"

// Where the container's own cgroup is: version 2, then version 1.
var (
	oomFiles = []string{"/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"}
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
		return exceededMemory
	}
	return ""
}

func countOOMKills() uint64 {
	for _, path := range oomFiles {
		if value, isThere := readField(path, "oom_kill"); isThere {
			return value
		}
	}
	return 0
}

// readField reads a file of lines with a name and a number.
func readField(path, name string) (uint64, bool) {
	content, err := os.ReadFile(path)
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
