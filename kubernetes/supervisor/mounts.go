package main

import (
	"os"
	"sort"
	"strconv"
	"strings"
)

// Kinds of file systems whose content takes no space on a disk.
var kindsWithoutDisk = map[string]bool{
	"proc": true, "sysfs": true, "tmpfs": true, "ramfs": true, "devtmpfs": true, "devpts": true,
	"mqueue": true, "cgroup": true, "cgroup2": true, "hugetlbfs": true,
}

// pathsOnDisk adds what else an agent may be able to fill: volumes that its image declares, and files
// of the container runtime. Kubernetes counts neither.
func pathsOnDisk(directories []string) []string {
	table, _ := os.ReadFile("/proc/self/mountinfo")
	paths := append([]string{}, directories...)
	for _, path := range parseDiskMounts(string(table)) {
		if !isBelowAny(path, paths) {
			paths = append(paths, path)
		}
	}
	return paths
}

// parseDiskMounts returns the writable ones, parents first. The root is read-only, or counted by
// Kubernetes.
func parseDiskMounts(table string) []string {
	paths := []string{}
	for _, line := range strings.Split(table, "\n") {
		mount, system, isValid := strings.Cut(line, " - ")
		fields, kind := strings.Fields(mount), strings.Fields(system)
		if !isValid || len(fields) < 6 || len(kind) == 0 || kindsWithoutDisk[kind[0]] {
			continue
		}
		if path := unescape(fields[4]); path != "/" && isWritable(fields[5]) {
			paths = append(paths, path)
		}
	}
	sort.Strings(paths)
	return paths
}

func isWritable(options string) bool {
	return options == "rw" || strings.HasPrefix(options, "rw,")
}

func isBelowAny(path string, parents []string) bool {
	for _, parent := range parents {
		if path == parent || strings.HasPrefix(path, strings.TrimSuffix(parent, "/")+"/") {
			return true
		}
	}
	return false
}

// unescape decodes the kernel's octal form of spaces and the like.
func unescape(text string) string {
	var decoded strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+3 < len(text) {
			if code, err := strconv.ParseUint(text[i+1:i+4], 8, 8); err == nil {
				decoded.WriteByte(byte(code))
				i += 3
				continue
			}
		}
		decoded.WriteByte(text[i])
	}
	return decoded.String()
}
