package main

import (
	"testing"
	"time"
)

func TestOrphansSayWhetherTheirWorkerEverCame(t *testing.T) {
	s := newSupervisor(&config{})
	if why := s.whyOrphaned(sinceStart() + time.Minute); why != "no worker has connected in 1m0s; the pod ends" {
		t.Errorf("without a worker: %q", why)
	}
	s.touch()
	if why := s.whyOrphaned(sinceStart() + 30*time.Second); why != "the worker has been silent for 30s; the agent is killed" {
		t.Errorf("with a silent worker: %q", why)
	}
}
