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
	files, err := openPipes()
	if err != nil {
		return 0, nil, err
	}
	pid, err := s.reaper.start(func() (int, error) { return forkExec(files) })
	files.closeChildEnds()
	if err != nil {
		files.closeOwnEnds()
		return 0, nil, err
	}
	// If the process dies early, its failure says so.
	_, _ = files.request.Write(request)
	files.request.Close()
	text, _ := io.ReadAll(io.LimitReader(files.failure, maxHelloBytes))
	files.failure.Close()
	if len(text) > 0 {
		s.reaper.wait(pid)
		files.output.Close()
		return 0, nil, errors.New(string(text))
	}
	return pid, files.output, nil
}

type pipes struct {
	null, output, request, failure             *os.File
	childOutput, childRequest, childFailureEnd *os.File
}

func openPipes() (*pipes, error) {
	p := &pipes{}
	if err := p.open(); err != nil {
		p.closeChildEnds()
		p.closeOwnEnds()
		return nil, err
	}
	return p, nil
}

func (p *pipes) open() (err error) {
	if p.null, err = os.Open(os.DevNull); err != nil {
		return err
	}
	if p.output, p.childOutput, err = os.Pipe(); err != nil {
		return err
	}
	if p.childRequest, p.request, err = os.Pipe(); err != nil {
		return err
	}
	p.failure, p.childFailureEnd, err = os.Pipe()
	return err
}

func (p *pipes) closeChildEnds() {
	closeAll(p.null, p.childOutput, p.childRequest, p.childFailureEnd)
}

func (p *pipes) closeOwnEnds() {
	closeAll(p.output, p.request, p.failure)
}

// closeAll skips files that were never opened.
func closeAll(files ...*os.File) {
	for _, file := range files {
		file.Close()
	}
}

func forkExec(p *pipes) (int, error) {
	return syscall.ForkExec(
		"/proc/self/exe",
		[]string{"agentjobs-supervisor", execCommand},
		&syscall.ProcAttr{
			Dir: "/",
			Env: []string{},
			Files: []uintptr{
				p.null.Fd(), p.childOutput.Fd(), p.childOutput.Fd(), p.childRequest.Fd(), p.childFailureEnd.Fd(),
			},
			Sys: &syscall.SysProcAttr{Setsid: true},
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
