package main

import (
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

const (
	prSetDumpable   = 4
	prSetSeccomp    = 22
	prSetNoNewPrivs = 38
	seccompFilter   = 2
	rlimitProcesses = 6

	signalDefault  = 0
	signalIgnored  = 1
	firstQueued    = 32
	lastQueued     = 64
	signalSetBytes = 8

	atFDCWD           = -0x64
	atSymlinkNoFollow = 0x100
	atRemoveDir       = 0x200
	clockRealCoarse   = 5
	// As many as could ever block in the kernel at the same time.
	threads = 24
)

// faultSignals end a Go program if sigqueue(3) or F_SETSIG sends them: they have another cause then than
// with kill(2), and Go takes them for its own faults.
var faultSignals = []syscall.Signal{
	syscall.SIGILL, syscall.SIGTRAP, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGSEGV, syscall.SIGSTKFLT,
	syscall.SIGSYS,
}

func prctl(option, first, second uintptr) error {
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, option, first, second, 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// becomeUnreadable hides memory and environment from the agent, which has the same user.
func becomeUnreadable() error {
	return prctl(prSetDumpable, 0, 0)
}

// clearUmask returns the former one, which the agent gets.
func clearUmask() int {
	return syscall.Umask(0)
}

// absorbSignals makes those of the agent harmless. Ignored ones would be ignored in its processes.
func absorbSignals() error {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals)
	go func() {
		for range signals {
		}
	}()
	return setHarmfulSignals(signalIgnored)
}

// setHarmfulSignals sets what happens on fault signals and on those that the kernel queues: handling
// a full queue takes seconds, and Go leaves some of them to C libraries. A real fault is never ignored.
func setHarmfulSignals(handler uintptr) error {
	action := sigaction{handler: handler}
	numbers := faultSignals
	for number := syscall.Signal(firstQueued); number <= lastQueued; number++ {
		numbers = append(numbers, number)
	}
	for _, number := range numbers {
		_, _, errno := syscall.RawSyscall6(
			syscall.SYS_RT_SIGACTION, uintptr(number), uintptr(unsafe.Pointer(&action)), 0, signalSetBytes, 0, 0)
		if errno != 0 {
			return errno
		}
	}
	return nil
}

// sigaction is the kernel's structure.
type sigaction struct {
	handler, flags, restorer uintptr
	mask                     uint64
}

// startThreads creates the runtime's threads ahead: once an agent has used up the processes of the
// pod, creating one fails, which would end this process.
func startThreads() {
	var ready, done sync.WaitGroup
	ready.Add(threads)
	done.Add(1)
	for i := 0; i < threads; i++ {
		go func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			ready.Done()
			done.Wait()
		}()
	}
	ready.Wait()
	done.Done()
}

// coarseNow is the clock of file times.
func coarseNow() time.Duration {
	var now syscall.Timespec
	_, _, _ = syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockRealCoarse, uintptr(unsafe.Pointer(&now)), 0)
	return time.Duration(now.Nano())
}
