package main

import (
	"errors"
	"os"
	"syscall"
)

// deletedFileBytes counts what the agent's processes keep open after deleting it, so that no
// directory lists it. Only on these file systems: others are memory.
func deletedFileBytes(devices map[uint64]bool, stop <-chan struct{}) uint64 {
	counted := make(map[inode]bool)
	var used uint64
	for _, pid := range listProcesses() {
		if pid == ownKey {
			continue
		}
		for _, path := range openFiles("/proc/" + pid + "/fd") {
			select {
			case <-stop:
				return used
			default:
			}
			used += deletedBytes(path, devices, counted)
		}
	}
	return used
}

func deletedBytes(path string, devices map[uint64]bool, counted map[inode]bool) uint64 {
	var status syscall.Stat_t
	if syscall.Stat(path, &status) != nil || status.Nlink != 0 || fileType(status.Mode) != syscall.S_IFREG {
		return 0
	}
	if !devices[uint64(status.Dev)] || counted[inodeOf(&status)] {
		return 0
	}
	counted[inodeOf(&status)] = true
	return uint64(status.Blocks) * blockBytes
}

// openFiles is empty if the process has ended or may not be inspected.
func openFiles(directory string) []string {
	file, err := os.Open(directory)
	if err != nil {
		return nil
	}
	defer file.Close()
	names, _ := file.Readdirnames(-1)
	for i := range names {
		names[i] = directory + "/" + names[i]
	}
	return names
}

func devicesOf(paths []string) map[uint64]bool {
	devices := make(map[uint64]bool)
	for _, path := range paths {
		var status syscall.Stat_t
		if syscall.Stat(path, &status) == nil {
			devices[uint64(status.Dev)] = true
		}
	}
	return devices
}

func isGone(err error) bool {
	return errors.Is(err, syscall.ENOENT)
}
