package main

import (
	"os"
	"strconv"
	"strings"
)

// Of the times in /proc/PID/stat, on every architecture.
const ticksPerSecond = 100

// cpuGauge counts the CPU time since the agent's start.
type cpuGauge struct {
	limit   float64
	before  float64
	inGroup bool
	times   processTimes
}

func newCPUGauge(seconds uint64) gauge {
	before, inGroup := cgroupSeconds()
	return &cpuGauge{limit: float64(seconds), before: before, inGroup: inGroup}
}

func (g *cpuGauge) exceededLimit() string {
	used := 0.0
	if g.inGroup {
		now, _ := cgroupSeconds()
		used = now - g.before
	} else {
		used = g.times.seconds(readProcesses())
	}
	if used >= g.limit {
		return "cpu"
	}
	return ""
}

// processStat has the times of one process, in ticks.
type processStat struct {
	own, children uint64
}

// processTimes adds up running processes and the last measured times of ended ones. The kernel adds
// an ended process to its parent, but only if the parent waits for it: the higher sum counts.
type processTimes struct {
	last  map[string]uint64
	ended uint64
}

func (t *processTimes) seconds(processes map[string]processStat) float64 {
	var own, reaped uint64
	current := make(map[string]uint64, len(processes))
	for key, process := range processes {
		reaped += process.children
		if key != ownKey {
			current[key] = process.own
			own += process.own
		}
	}
	for key, ticks := range t.last {
		if _, isAlive := current[key]; !isAlive {
			t.ended += ticks
		}
	}
	t.last = current
	if t.ended > reaped {
		reaped = t.ended
	}
	return float64(own+reaped) / ticksPerSecond
}

// The supervisor: what it waited for counts, and its own work does not.
const ownKey = "1"

// readProcesses returns all processes of the pod by their number and start.
func readProcesses() map[string]processStat {
	processes := make(map[string]processStat)
	for _, pid := range listProcesses() {
		content, err := os.ReadFile("/proc/" + pid + "/stat")
		if err != nil {
			continue
		}
		if process, start, isValid := parseStat(string(content)); isValid {
			key := pid
			if pid != ownKey {
				key += " " + start
			}
			processes[key] = process
		}
	}
	return processes
}

// parseStat skips the name, which may contain anything.
func parseStat(content string) (process processStat, start string, isValid bool) {
	fields := strings.Fields(content[strings.LastIndexByte(content, ')')+1:])
	if len(fields) < 20 {
		return processStat{}, "", false
	}
	numbers := make([]uint64, 4)
	for i := range numbers {
		numbers[i], _ = strconv.ParseUint(fields[11+i], 10, 64)
	}
	return processStat{own: numbers[0] + numbers[1], children: numbers[2] + numbers[3]}, fields[19], true
}

func listProcesses() []string {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer proc.Close()
	names, _ := proc.Readdirnames(-1)
	pids := names[:0]
	for _, name := range names {
		if name[0] >= '0' && name[0] <= '9' {
			pids = append(pids, name)
		}
	}
	return pids
}
