package main

import (
	"fmt"
	"os"
)

// handleMessages serves the worker's requests in their order.
func (s *session) handleMessages() {
	for {
		select {
		case m := <-s.messages:
			s.handle(m)
		case <-s.closed:
			return
		}
	}
}

func (s *session) handle(m *message) {
	switch m.Type {
	case "prepare":
		s.replyTo(s.supervisor.prepare(m.command), "prepared")
	case "start":
		err := s.supervisor.start()
		s.replyTo(err, "started")
		if err == nil {
			s.supervisor.releaseOutput()
		}
	case "kill":
		s.supervisor.kill()
	case "list_ports":
		_ = s.sendMessage(portsReply{Type: "ports", Ports: s.supervisor.listeningPorts()})
	case "find_programs":
		_ = s.sendMessage(programsReply{Type: "programs", Paths: findPrograms(m.Names, m.Path)})
	case "exists":
		_, err := os.Lstat(m.Path)
		_ = s.sendMessage(existenceReply{Type: "existence", Path: m.Path, Exists: err == nil})
	case "dial":
		s.goSafely(func() {
			_ = s.sendMessage(dialedReply{Type: "dialed", Results: dialAll(m.Addresses, m.Seconds)})
		})
	case "exit":
		s.supervisor.exit(0)
	default:
		s.replyTo(fmt.Errorf("unknown message %q", m.Type), "")
	}
}

func (s *session) replyTo(err error, success string) {
	if err != nil {
		_ = s.sendMessage(failedReply{Type: "failed", Reason: err.Error()})
		return
	}
	_ = s.sendMessage(reply{Type: success})
}

func (s *session) answerPings() {
	for {
		select {
		case <-s.pings:
			_ = s.sendMessage(reply{Type: "pong"})
		case <-s.closed:
			return
		}
	}
}

// sendOutputFrom sends what the agent writes, and how it ended.
func (s *session) sendOutputFrom(offset uint64) {
	for {
		at, data, isOver := s.supervisor.output.next(offset, s.closed)
		if isOver {
			if s.supervisor.isEnded() {
				_ = s.sendMessage(s.supervisor.ended)
			}
			return
		}
		if len(data) == 0 || s.sendOutput(at, data) != nil {
			return
		}
		offset = at + uint64(len(data))
	}
}

// serveChannel does what the worker opened a channel for.
func (s *supervisor) serveChannel(c *channel, kind opening) {
	switch kind.Kind {
	case "upload":
		s.serveUpload(c, kind)
	case "store":
		serveStore(c, kind.MaxBytes)
	case "download":
		s.serveDownload(c, kind)
	case "deletions":
		s.serveDeletions(c, kind)
	case "connect":
		serveConnect(c, kind.Port)
	default:
		c.session.fail(c, fmt.Errorf("unknown kind of channel %q", kind.Kind))
	}
}
