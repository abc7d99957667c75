package main

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// agentRun is the agent from its start to the end of its last process.
type agentRun struct {
	pid     int
	pipe    *os.File
	started time.Time

	mutex    sync.Mutex
	isKilled bool
	exceeded string
	released chan struct{}
	once     sync.Once
}

// prepare opens the ports and keeps the command.
func (s *supervisor) prepare(c command) error {
	s.operation.Lock()
	defer s.operation.Unlock()
	if s.currentState() != stateNew {
		return errors.New("a command was already prepared")
	}
	if err := c.check(); err != nil {
		return err
	}
	if err := s.ports.listen(c.Ports); err != nil {
		return err
	}
	s.setState(statePrepared, func() { s.command = c })
	return nil
}

// start runs the prepared command. Its output is read when `releaseOutput` is called.
func (s *supervisor) start() error {
	s.operation.Lock()
	defer s.operation.Unlock()
	if s.currentState() != statePrepared {
		return fmt.Errorf("no command is prepared: the state is %s", s.currentState())
	}
	if err := s.trees.takeBaselines(); err != nil {
		return err
	}
	watch := newWatch(s.command.Limits, pathsOnDisk(s.config.Directories))
	pid, pipe, err := s.spawn()
	if err != nil {
		return err
	}
	run := &agentRun{pid: pid, pipe: pipe, started: time.Now(), released: make(chan struct{})}
	s.setState(stateRunning, func() { s.run = run })
	goSafely(func() { s.finish(run, watch) })
	goSafely(func() { watch.run(run.exceed) })
	return nil
}

// releaseOutput is called after the worker knows that the agent has started.
func (s *supervisor) releaseOutput() {
	s.mutex.Lock()
	run := s.run
	s.mutex.Unlock()
	run.once.Do(func() { close(run.released) })
}

// kill ends the agent. Without one, the run ends at once.
func (s *supervisor) kill() {
	s.operation.Lock()
	defer s.operation.Unlock()
	switch s.currentState() {
	case stateRunning:
		s.run.kill()
	case stateNew, statePrepared:
		s.setState(stateEnded, func() { s.ended = &ended{Type: "ended"} })
		s.output.finish()
	}
}

func (r *agentRun) kill() {
	r.mutex.Lock()
	r.isKilled = true
	r.mutex.Unlock()
	killAll()
}

// exceed kills the agent for a limit.
func (r *agentRun) exceed(limit string) {
	r.mutex.Lock()
	if !r.isKilled {
		r.exceeded = limit
		r.isKilled = true
	}
	r.mutex.Unlock()
	killAll()
}

// finish waits for the agent and ends what it left behind.
func (s *supervisor) finish(run *agentRun, watch *watch) {
	read := make(chan struct{})
	goSafely(func() {
		defer close(read)
		<-run.released
		s.output.readFrom(run.pipe)
	})
	status := s.reaper.wait(run.pid)
	s.reaper.killUntilIdle()
	duration := time.Since(run.started)
	if limit := watch.end(); limit != "" {
		run.exceed(limit)
	}
	s.output.drain()
	<-read
	run.pipe.Close()
	s.setState(stateEnded, func() { s.ended = run.report(exitCode(status), duration) })
	s.output.finish()
}

func (r *agentRun) report(code int, duration time.Duration) *ended {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	report := &ended{Type: "ended", DurationMS: duration.Milliseconds()}
	if !r.isKilled {
		report.ExitCode = &code
	}
	if r.exceeded != "" {
		report.Exceeded = &r.exceeded
	}
	return report
}

func (s *supervisor) setState(state string, change func()) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.state = state
	change()
}

func (s *supervisor) currentState() string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.state
}

func (s *supervisor) isEnded() bool {
	return s.currentState() == stateEnded
}
