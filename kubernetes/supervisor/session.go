package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"sync"
)

const (
	maxChannels = 2048
	// Messages that wait to be handled. A worker waits for replies, so there are few.
	queuedMessages = 64
	queuedPongs    = 16
)

// session is one authenticated connection of the worker.
type session struct {
	connection net.Conn
	reader     *bufio.Reader
	supervisor *supervisor
	messages   chan *message
	pings      chan struct{}
	closed     chan struct{}
	closeOnce  sync.Once

	writing sync.Mutex
	buffer  []byte

	mutex    sync.Mutex
	channels map[uint32]*channel
	nextID   uint32
	isClosed bool
}

func newSession(connection net.Conn, reader *bufio.Reader, s *supervisor) *session {
	return &session{
		connection: connection,
		reader:     reader,
		supervisor: s,
		messages:   make(chan *message, queuedMessages),
		pings:      make(chan struct{}, queuedPongs),
		closed:     make(chan struct{}),
		buffer:     make([]byte, headerBytes+maxDataBytes+offsetBytes),
		channels:   make(map[uint32]*channel),
		nextID:     1,
	}
}

// send writes one frame. It blocks while the worker does not read.
func (s *session) send(kind frameType, channel uint32, payload []byte) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	buffer := s.buffer
	if needed := headerBytes + len(payload); needed > len(buffer) {
		buffer = make([]byte, needed)
	}
	putHeader(buffer, kind, channel, len(payload))
	n := copy(buffer[headerBytes:], payload)
	return s.write(buffer[:headerBytes+n])
}

func (s *session) sendOutput(offset uint64, data []byte) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	putHeader(s.buffer, frameOutput, 0, offsetBytes+len(data))
	binary.BigEndian.PutUint64(s.buffer[headerBytes:], offset)
	n := copy(s.buffer[headerBytes+offsetBytes:], data)
	return s.write(s.buffer[:headerBytes+offsetBytes+n])
}

func (s *session) write(data []byte) error {
	_, err := s.connection.Write(data)
	if err != nil {
		s.close()
	}
	return err
}

func (s *session) sendMessage(value interface{}) error {
	payload, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return s.send(frameMessage, 0, payload)
}

// fail reports what a channel could not do, and resets it.
func (s *session) fail(c *channel, err error) {
	_ = s.sendMessage(failedReply{Type: "failed", Channel: c.id, Reason: err.Error()})
	c.Close()
}

// open starts a channel of the supervisor's own.
func (s *session) open(kind opening) (*channel, error) {
	payload, err := json.Marshal(kind)
	if err != nil {
		return nil, err
	}
	s.mutex.Lock()
	if s.isClosed {
		s.mutex.Unlock()
		return nil, errChannelClosed
	}
	c := newChannel(s.nextID, s)
	s.nextID += 2
	s.channels[c.id] = c
	s.mutex.Unlock()
	return c, s.send(frameOpen, c.id, payload)
}

func (s *session) find(id uint32) *channel {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.channels[id]
}

func (s *session) remove(id uint32) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	delete(s.channels, id)
}

// close ends the connection and all its channels.
func (s *session) close() {
	s.closeOnce.Do(func() {
		close(s.closed)
		s.supervisor.endSession(s)
		// The deadline also wakes a Write that holds the lock of a TLS connection.
		_ = s.connection.SetDeadline(longAgo)
		s.mutex.Lock()
		s.isClosed = true
		channels := s.channels
		s.channels = make(map[uint32]*channel)
		s.mutex.Unlock()
		for _, c := range channels {
			c.markClosed()
		}
		s.supervisor.output.wake()
		go s.connection.Close()
	})
}

// serve reads frames until the connection ends.
func (s *session) serve() error {
	defer s.close()
	for {
		f, err := readFrame(s.reader, maxMessageBytes)
		if err != nil {
			return err
		}
		s.supervisor.touch()
		if err := s.dispatch(f); err != nil {
			return err
		}
	}
}

func (s *session) dispatch(f frame) error {
	switch f.kind {
	case frameMessage:
		return s.dispatchMessage(f.payload)
	case frameAck:
		return s.supervisor.output.acknowledge(binary.BigEndian.Uint64(f.payload))
	case frameOpen:
		return s.acceptChannel(f)
	}
	c := s.find(f.channel)
	if c == nil {
		return nil
	}
	switch f.kind {
	case frameData:
		return c.accept(f.payload)
	case frameCredit:
		return c.acceptCredit(f.payload)
	case frameEnd:
		c.acceptEnd()
	case frameClose:
		c.markClosed()
		s.remove(c.id)
	}
	return nil
}

func (s *session) dispatchMessage(payload []byte) error {
	m := &message{}
	if err := json.Unmarshal(payload, m); err != nil {
		return fmt.Errorf("%w: %v", errProtocol, err)
	}
	if m.Type == "ping" {
		select {
		case s.pings <- struct{}{}:
		default:
		}
		return nil
	}
	select {
	case s.messages <- m:
	case <-s.closed:
	}
	return nil
}

func (s *session) acceptChannel(f frame) error {
	kind := opening{}
	if err := json.Unmarshal(f.payload, &kind); err != nil {
		return fmt.Errorf("%w: %v", errProtocol, err)
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if f.channel%2 != 0 || s.channels[f.channel] != nil || len(s.channels) >= maxChannels {
		return fmt.Errorf("%w: channel %d cannot be opened", errProtocol, f.channel)
	}
	c := newChannel(f.channel, s)
	s.channels[c.id] = c
	s.goSafely(func() { s.supervisor.serveChannel(c, kind) })
	return nil
}
