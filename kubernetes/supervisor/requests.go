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
		s.reply(m, s.supervisor.prepare(m.command), nil)
	case "start":
		err := s.supervisor.start()
		s.reply(m, err, nil)
		if err == nil {
			s.supervisor.releaseOutput()
		}
	case "kill":
		s.supervisor.kill()
	case "list_ports":
		s.reply(m, nil, fields{"ports": s.supervisor.listeningPorts()})
	case "find_programs":
		s.reply(m, nil, fields{"paths": findPrograms(m.Names, m.Path)})
	case "exists":
		_, err := os.Lstat(m.Path)
		s.reply(m, nil, fields{"exists": err == nil})
	case "dial":
		s.goSafely(func() { s.reply(m, nil, fields{"results": dialAll(m.Addresses, m.Seconds)}) })
	case "exit":
		s.supervisor.exit(0)
	default:
		s.reply(m, fmt.Errorf("unknown message %q", m.Type), nil)
	}
}

func (s *session) reply(m *message, err error, result fields) {
	if err != nil {
		_ = s.sendMessage(failed(m.ID, err))
		return
	}
	_ = s.sendMessage(fields{"type": "done", "id": m.ID, "result": result})
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

// serveStream does what the worker opened a stream for, and then closes it.
func (s *session) serveStream(c *stream, hello *message) {
	if !s.add(c) {
		c.Close()
		return
	}
	if hello.Type == "port" {
		// Whoever waits for it closes it.
		s.deliver(hello.ID, c)
		return
	}
	defer s.closeStream(c)
	if err := s.supervisor.serveRequest(c, hello); err != nil {
		c.fail(err)
		return
	}
	c.End()
}

func (s *supervisor) serveRequest(c *stream, hello *message) error {
	switch hello.Type {
	case "upload":
		return s.receiveUpload(c, hello)
	case "remove":
		return s.removePaths(c, hello)
	case "store":
		return storeArchive(c, cacheDirectory, hello.MaxBytes)
	case "download":
		return s.sendChanges(c, hello)
	case "connect":
		return connectTo(c, hello.Port)
	}
	return fmt.Errorf("unknown kind of stream %q", hello.Type)
}
