package main

import (
	"os"
	"syscall"
	"testing"
)

func countDescriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// withFreeDescriptors calls while no more than so many files can be opened.
func withFreeDescriptors(t *testing.T, count uint64, call func()) {
	t.Helper()
	first, err := syscall.Dup(1)
	if err != nil {
		t.Fatal(err)
	}
	syscall.Close(first)
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	lower := syscall.Rlimit{Cur: uint64(first) + count, Max: limit.Max}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &lower); err != nil {
		t.Fatal(err)
	}
	defer syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
	call()
}

func TestPipesThatCannotAllBeOpenedAreClosed(t *testing.T) {
	// The first pipe of a process opens the files of Go's poller, too.
	files, err := openPipes()
	if err != nil {
		t.Fatal(err)
	}
	closeAll(files[:]...)
	before := countDescriptors(t)
	for count := uint64(0); count < 6; count++ {
		withFreeDescriptors(t, count, func() { _, err = openPipes() })
		if err == nil {
			t.Fatalf("all pipes were opened with %d descriptors", count)
		}
		if after := countDescriptors(t); after != before {
			t.Fatalf("%d descriptors are left open after the pipes failed with %d", after-before, count)
		}
	}
}
