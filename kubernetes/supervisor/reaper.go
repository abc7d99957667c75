package main

import (
	"sync"
	"syscall"
	"time"
)

const killInterval = 50 * time.Millisecond

// reaper waits for all processes of the pod, which are or become children of this one.
type reaper struct {
	mutex   sync.Mutex
	changed *sync.Cond
	// Processes that were started here and have not been waited for.
	started  int
	statuses map[int]syscall.WaitStatus
	awaited  map[int]bool
	isIdle   bool
}

func newReaper() *reaper {
	r := &reaper{statuses: make(map[int]syscall.WaitStatus), awaited: make(map[int]bool), isIdle: true}
	r.changed = sync.NewCond(&r.mutex)
	return r
}

func (r *reaper) run() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case err == nil && pid > 0:
			r.ended(pid, status)
		case err == syscall.ECHILD:
			r.waitForStart()
		}
	}
}

func (r *reaper) ended(pid int, status syscall.WaitStatus) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.awaited[pid] {
		r.statuses[pid] = status
		r.changed.Broadcast()
	}
}

// waitForStart is called when there is no child.
func (r *reaper) waitForStart() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.started > 0 {
		// It was started after the kernel said that there is none, or it has ended since.
		r.started = 0
		return
	}
	r.isIdle = true
	r.changed.Broadcast()
	for r.started == 0 {
		r.changed.Wait()
	}
	r.started = 0
}

// start runs `fork`, whose process can be waited for.
func (r *reaper) start(fork func() (int, error)) (int, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	pid, err := fork()
	if err != nil {
		return 0, err
	}
	r.awaited[pid] = true
	r.isIdle = false
	r.started++
	r.changed.Broadcast()
	return pid, nil
}

func (r *reaper) wait(pid int) syscall.WaitStatus {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for {
		if status, isEnded := r.statuses[pid]; isEnded {
			delete(r.statuses, pid)
			delete(r.awaited, pid)
			return status
		}
		r.changed.Wait()
	}
}

// killAll kills every process but this one. The kernel lets none of them fork meanwhile.
func killAll() {
	_ = syscall.Kill(-1, syscall.SIGKILL)
}

// killUntilIdle returns when no process is left.
func (r *reaper) killUntilIdle() {
	stop := make(chan struct{})
	defer close(stop)
	goSafely(func() {
		// Repeated for what enters the pod from outside meanwhile.
		for {
			killAll()
			select {
			case <-stop:
				return
			case <-time.After(killInterval):
			}
		}
	})
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for !r.isIdle {
		r.changed.Wait()
	}
}
