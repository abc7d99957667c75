package main

import "sync"

const (
	maxStreams = 2048
	// Messages that wait to be handled. A worker waits for replies, so there are few.
	queuedMessages = 64
)

// session is the first connection of the worker, with those that it opened beside it.
type session struct {
	*stream
	number     uint64
	supervisor *supervisor
	messages   chan *message
	closed     chan struct{}

	mutex    sync.Mutex
	isClosed bool
	streams  map[*stream]bool
	// Connections of the agent for which the worker should open a stream.
	requested map[uint64]chan *stream
	nextID    uint64
}

func newSession(c *stream, s *supervisor) *session {
	return &session{
		stream:     c,
		supervisor: s,
		messages:   make(chan *message, queuedMessages),
		closed:     make(chan struct{}),
		streams:    make(map[*stream]bool),
		requested:  make(map[uint64]chan *stream),
	}
}

// request asks the worker for a stream to one of its ports, and returns nil when the session ends.
func (s *session) request(port int, address string) *stream {
	opened := make(chan *stream, 1)
	s.mutex.Lock()
	s.nextID++
	id := s.nextID
	s.requested[id] = opened
	s.mutex.Unlock()
	_ = s.sendMessage(fields{"type": "port", "id": id, "number": port, "address": address})
	select {
	case c := <-opened:
		return c
	case <-s.closed:
		return nil
	}
}

func (s *session) deliver(id uint64, c *stream) {
	s.mutex.Lock()
	opened := s.requested[id]
	delete(s.requested, id)
	s.mutex.Unlock()
	if opened == nil {
		c.Close()
		return
	}
	opened <- c
}

// add makes the stream end with the session.
func (s *session) add(c *stream) (isAdded bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.isClosed || len(s.streams) >= maxStreams {
		return false
	}
	s.streams[c] = true
	return true
}

// closeStream is called for each stream that was added.
func (s *session) closeStream(c *stream) {
	c.Close()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	delete(s.streams, c)
}

// close ends the connection and all its streams.
func (s *session) close() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.isClosed {
		return
	}
	s.isClosed = true
	close(s.closed)
	s.supervisor.endSession(s)
	s.streams[s.stream] = true
	for c := range s.streams {
		// Closing sends a last message, which may take a moment.
		_ = c.connection.SetDeadline(longAgo)
		go c.connection.Close()
	}
	s.supervisor.output.wake()
}

// serve reads messages until the connection ends.
func (s *session) serve() error {
	defer s.close()
	for {
		m, err := readMessage(s.reader, maxMessageBytes)
		if err != nil {
			return err
		}
		s.supervisor.touch()
		if err := s.dispatch(m); err != nil {
			return err
		}
	}
}

func (s *session) dispatch(m *message) error {
	switch m.Type {
	case "ack":
		return s.supervisor.output.acknowledge(m.Offset)
	case "ping":
		// Requests may take long, and nothing else is read while this waits.
		s.goSafely(func() { _ = s.sendMessage(fields{"type": "pong"}) })
	default:
		select {
		case s.messages <- m:
		case <-s.closed:
		}
	}
	return nil
}
