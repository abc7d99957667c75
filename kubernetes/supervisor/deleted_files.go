package main

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Of a task that is about to end, in the flags of /proc/PID/stat.
const taskIsExiting = 4

// deletedFiles are what the agent's processes keep after deleting it, so that no directory lists it.
// Only on these file systems: others are memory.
type deletedFiles struct {
	devices map[uint64]bool
	stop    <-chan struct{}
	counted map[inode]bool
	mapped  map[inode]bool
	bytes   uint64
	// A process may not be inspected, or has descriptors in flight, which nobody can see.
	isHidden bool
}

func findDeletedFiles(devices map[uint64]bool, stop <-chan struct{}) *deletedFiles {
	d := &deletedFiles{devices: devices, stop: stop, counted: make(map[inode]bool), mapped: make(map[inode]bool)}
	for _, pid := range listProcesses() {
		if pid != ownKey {
			d.addProcess("/proc/" + pid + "/task/")
		}
	}
	return d
}

// isComplete is false if there may be more. Only root sees the size of a file that is just mapped.
func (d *deletedFiles) isComplete() bool {
	for file := range d.mapped {
		if !d.counted[file] {
			return false
		}
	}
	return !d.isHidden
}

// addProcess reads one thread that is alive, because all threads have the same files.
func (d *deletedFiles) addProcess(tasks string) {
	threads, _ := listNames(tasks)
	for _, thread := range threads {
		task := tasks + thread
		names, err := listNames(task + "/fd")
		for _, name := range names {
			select {
			case <-d.stop:
				return
			default:
			}
			if fileErr := d.addFile(task, name); fileErr == syscall.EACCES {
				err = fileErr
			}
		}
		if isAlive(task) {
			d.isHidden = d.isHidden || errors.Is(err, syscall.EACCES)
			d.addMappings(task + "/maps")
			return
		}
	}
}

func (d *deletedFiles) addFile(task, name string) error {
	var status syscall.Stat_t
	if err := syscall.Stat(task+"/fd/"+name, &status); err != nil {
		return err
	}
	if fileType(status.Mode) == syscall.S_IFSOCK {
		information, _ := os.ReadFile(task + "/fdinfo/" + name)
		_, count, _ := bytes.Cut(information, []byte("scm_fds:"))
		d.isHidden = d.isHidden || strings.Trim(string(count), " \t\n0") != ""
	}
	file := inodeOf(&status)
	isDeleted := status.Nlink == 0 && fileType(status.Mode) == syscall.S_IFREG && d.devices[file.device]
	if isDeleted && !d.counted[file] {
		d.counted[file] = true
		d.bytes += uint64(status.Blocks) * blockBytes
	}
	return nil
}

func (d *deletedFiles) addMappings(path string) {
	table, _ := os.ReadFile(path)
	for _, line := range bytes.Split(table, []byte("\n")) {
		fields := bytes.Fields(line)
		if len(fields) < 6 || !bytes.HasSuffix(line, []byte(" (deleted)")) {
			continue
		}
		major, minor, _ := strings.Cut(string(fields[3]), ":")
		high, _ := strconv.ParseUint(major, 16, 32)
		low, _ := strconv.ParseUint(minor, 16, 32)
		number, _ := strconv.ParseUint(string(fields[4]), 10, 64)
		if device := low&0xff | high<<8 | (low&^0xff)<<12; d.devices[device] {
			d.mapped[inode{device, number}] = true
		}
	}
}

// isAlive is false for a task that has ended, or is about to: it may not be inspected any more.
func isAlive(task string) bool {
	content, _ := os.ReadFile(task + "/stat")
	fields := strings.Fields(string(content[bytes.LastIndexByte(content, ')')+1:]))
	if len(fields) < 7 {
		return false
	}
	flags, _ := strconv.ParseUint(fields[6], 10, 64)
	return fields[0] != "Z" && fields[0] != "X" && flags&taskIsExiting == 0
}

func listNames(directory string) ([]string, error) {
	file, err := os.Open(directory)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return file.Readdirnames(-1)
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
