package main

import (
	"fmt"
	"os"
	"runtime/debug"
)

// goSafely keeps the run when a goroutine panics: a crash of this process would kill the agent. Using a
// nil pointer is no panic here, see faultSignals.
func goSafely(work func()) {
	go func() {
		defer func() {
			if failure := recover(); failure != nil {
				reportPanic(failure)
			}
		}()
		work()
	}()
}

// goSafely closes the session if its work panics, and the worker reconnects.
func (s *session) goSafely(work func()) {
	go func() {
		defer func() {
			if failure := recover(); failure != nil {
				reportPanic(failure)
				s.close()
			}
		}()
		work()
	}()
}

func reportPanic(failure interface{}) {
	fmt.Fprintf(os.Stderr, "agentjobs-supervisor: %v\n%s", failure, debug.Stack())
}
