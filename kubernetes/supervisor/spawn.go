package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"syscall"
)

const execCommand = "exec"

// execRequest is what the process that becomes the agent has to do before it does.
type execRequest struct {
	command
	Umask int `json:"umask"`
}

// spawn starts this program again, which applies the limits and becomes the agent. It returns when
// the agent runs, with the reading end of its output.
func (s *supervisor) spawn() (int, *os.File, error) {
	request, err := json.Marshal(execRequest{command: s.command, Umask: s.umask})
	if err != nil {
		return 0, nil, err
	}
	ends, err := openPipes()
	if err != nil {
		return 0, nil, err
	}
	output, childOutput, childRequest, requests, failure, childFailure := ends[0], ends[1], ends[2], ends[3], ends[4], ends[5]
	pid, err := s.reaper.start(func() (int, error) { return forkExec(childOutput, childRequest, childFailure) })
	closeAll(childOutput, childRequest, childFailure)
	if err != nil {
		closeAll(output, requests, failure)
		return 0, nil, err
	}
	// If the process dies early, its failure says so.
	_, _ = requests.Write(request)
	requests.Close()
	text, _ := io.ReadAll(io.LimitReader(failure, maxHelloBytes))
	failure.Close()
	if len(text) > 0 {
		s.reaper.wait(pid)
		output.Close()
		return 0, nil, errors.New(string(text))
	}
	return pid, output, nil
}

// openPipes returns the reading and the writing end of the output, the request and the failure.
func openPipes() (ends [6]*os.File, err error) {
	for i := 0; i < len(ends); i += 2 {
		if ends[i], ends[i+1], err = os.Pipe(); err != nil {
			closeAll(ends[:]...)
			return ends, err
		}
	}
	return ends, nil
}

// closeAll skips files that were never opened.
func closeAll(files ...*os.File) {
	for _, file := range files {
		file.Close()
	}
}

func forkExec(output, request, failure *os.File) (int, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	return syscall.ForkExec(
		"/proc/self/exe",
		[]string{"agentjobs-supervisor", execCommand},
		&syscall.ProcAttr{
			Dir:   "/",
			Env:   []string{},
			Files: []uintptr{null.Fd(), output.Fd(), output.Fd(), request.Fd(), failure.Fd()},
			Sys:   &syscall.SysProcAttr{Setsid: true},
		},
	)
}

// exitCode is what a shell would say.
func exitCode(status syscall.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}
