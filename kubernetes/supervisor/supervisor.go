package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

const (
	stateNew      = "new"
	statePrepared = "prepared"
	stateRunning  = "running"
	stateEnded    = "ended"

	// Until the first connection, when nothing runs yet: the worker has to learn the pod's address.
	firstContactTimeout = 60 * time.Second
	maxCPUs             = 4
)

// supervisor is the state of the pod, which outlives connections.
type supervisor struct {
	config    *config
	output    *output
	reaper    *reaper
	trees     *trees
	ports     *ports
	umask     int
	unpacked  []string
	lastFrame atomic.Int64
	touched   atomic.Bool

	// One operation that changes the state at a time.
	operation sync.Mutex
	mutex     sync.Mutex
	changed   *sync.Cond
	state     string
	command   command
	run       *agentRun
	ended     *ended
	session   *session
	sessions  uint64
}

func newSupervisor(c *config) *supervisor {
	s := &supervisor{config: c, output: newOutput(), reaper: newReaper(), trees: newTrees(), state: stateNew}
	s.ports = newPorts(s)
	s.unpacked = readUnpacked(unpackedRecord(os.Args[0]))
	s.changed = sync.NewCond(&s.mutex)
	s.lastFrame.Store(int64(sinceStart()))
	return s
}

// supervise returns only if it cannot start.
func supervise() error {
	if os.Getpid() != 1 {
		return errors.New("not the first process of a container: nothing could end what an agent leaves behind")
	}
	if err := becomeUnreadable(); err != nil {
		return fmt.Errorf("the agent could read this process: %w", err)
	}
	c, err := takeConfig()
	if err != nil {
		return err
	}
	limitRuntime()
	s := newSupervisor(c)
	s.umask = clearUmask()
	if err := absorbSignals(); err != nil {
		return fmt.Errorf("the agent could end this process: %w", err)
	}
	goSafely(s.reaper.run)
	server, err := listen(s)
	if err != nil {
		return err
	}
	goSafely(server.serve)
	s.waitForOrphan()
	return nil
}

// limitRuntime bounds what this process takes from the agent's share.
func limitRuntime() {
	if runtime.NumCPU() > maxCPUs {
		runtime.GOMAXPROCS(maxCPUs)
	}
	debug.SetGCPercent(50)
	startThreads()
}

var started = time.Now()

func sinceStart() time.Duration {
	return time.Since(started)
}

// touch notes that the worker is there.
func (s *supervisor) touch() {
	s.lastFrame.Store(int64(sinceStart()))
	s.touched.Store(true)
}

// waitForOrphan ends this process, and with it the agent, when the worker is gone.
func (s *supervisor) waitForOrphan() {
	for {
		left := s.timeLeft(sinceStart())
		if left <= 0 {
			fmt.Fprintln(os.Stderr, "agentjobs-supervisor:", s.whyOrphaned(sinceStart()))
			s.exit(1)
		}
		// The first contact shortens the timeout while this sleeps.
		if longest := s.config.orphanTimeout(); left > longest {
			left = longest
		}
		time.Sleep(left)
	}
}

// timeLeft is for a worker that sends nothing more.
func (s *supervisor) timeLeft(now time.Duration) time.Duration {
	timeout := s.config.orphanTimeout()
	if !s.touched.Load() && timeout < firstContactTimeout {
		timeout = firstContactTimeout
	}
	return timeout - (now - time.Duration(s.lastFrame.Load()))
}

func (s *supervisor) whyOrphaned(now time.Duration) string {
	silence := (now - time.Duration(s.lastFrame.Load())).Round(time.Second)
	if !s.touched.Load() {
		return fmt.Sprintf("no worker has connected in %s; the pod ends", silence)
	}
	return fmt.Sprintf("the worker has been silent for %s; the agent is killed", silence)
}

// exit kills what is alive. The kernel does the same when the first process ends.
func (s *supervisor) exit(code int) {
	killAll()
	os.Exit(code)
}

// serveSession makes this connection the current one, until it ends.
func (s *supervisor) serveSession(n *session, hello *message) {
	defer n.close()
	if !s.output.isAvailable(hello.Offset) {
		return
	}
	previous, err := s.startSession(n)
	if previous != nil {
		previous.close()
	}
	if err != nil {
		return
	}
	n.goSafely(func() { n.sendOutputFrom(hello.Offset) })
	n.goSafely(n.handleMessages)
	_ = n.serve()
}

// startSession answers the hello before anybody else can use the session.
func (s *supervisor) startSession(n *session) (previous *session, err error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	previous, s.session = s.session, n
	s.sessions++
	n.number = s.sessions
	s.changed.Broadcast()
	return previous, n.sendMessage(fields{
		"type": "hello", "version": protocolVersion, "architecture": architecture, "state": s.state,
		"session": n.number, "unpacked": s.unpacked,
	})
}

// findSession returns nil if another one has replaced it.
func (s *supervisor) findSession(number uint64) *session {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.session == nil || s.session.number != number {
		return nil
	}
	return s.session
}

func (s *supervisor) endSession(n *session) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.session == n {
		s.session = nil
	}
}

// currentSession waits for a worker, which may reconnect at any time.
func (s *supervisor) currentSession() *session {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for s.session == nil {
		s.changed.Wait()
	}
	return s.session
}
