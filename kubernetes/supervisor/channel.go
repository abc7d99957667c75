package main

import (
	"encoding/binary"
	"errors"
	"io"
	"sync"
)

var errChannelClosed = errors.New("the channel is closed")

// channel is one stream of bytes in each direction. Credit bounds what either side must keep.
type channel struct {
	id      uint32
	session *session

	mutex    sync.Mutex
	changed  *sync.Cond
	received [][]byte
	// Read from `received`, and not yet given back as credit.
	consumed  int
	mayGet    int
	maySend   int
	gotEnd    bool
	sentEnd   bool
	isClosed  bool
	isRemoved bool
}

func newChannel(id uint32, s *session) *channel {
	c := &channel{id: id, session: s, mayGet: initialCredit, maySend: initialCredit}
	c.changed = sync.NewCond(&c.mutex)
	return c
}

// Read blocks until there are bytes. It returns io.EOF after the other side's END.
func (c *channel) Read(buffer []byte) (int, error) {
	c.mutex.Lock()
	for len(c.received) == 0 && !c.gotEnd && !c.isClosed {
		c.changed.Wait()
	}
	if c.isClosed {
		c.mutex.Unlock()
		return 0, errChannelClosed
	}
	if len(c.received) == 0 {
		c.mutex.Unlock()
		return 0, io.EOF
	}
	n := copy(buffer, c.received[0])
	if c.received[0] = c.received[0][n:]; len(c.received[0]) == 0 {
		c.received[0] = nil
		c.received = c.received[1:]
	}
	credit := c.takeCredit(n)
	c.mutex.Unlock()
	if credit > 0 {
		c.sendCredit(credit)
	}
	return n, nil
}

func (c *channel) takeCredit(n int) int {
	c.consumed += n
	if c.gotEnd || c.consumed < initialCredit/4 {
		return 0
	}
	credit := c.consumed
	c.consumed = 0
	c.mayGet += credit
	return credit
}

func (c *channel) sendCredit(credit int) {
	var payload [4]byte
	binary.BigEndian.PutUint32(payload[:], uint32(credit))
	// A lost connection closes the channel, which the next Read reports.
	_ = c.session.send(frameCredit, c.id, payload[:])
}

// Write blocks until the other side has given credit for all bytes.
func (c *channel) Write(data []byte) (int, error) {
	written := 0
	for written < len(data) {
		n, err := c.waitForCredit(len(data) - written)
		if err != nil {
			return written, err
		}
		if err := c.session.send(frameData, c.id, data[written:written+n]); err != nil {
			return written, err
		}
		written += n
	}
	return written, nil
}

func (c *channel) waitForCredit(wanted int) (int, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for c.maySend == 0 && !c.isClosed {
		c.changed.Wait()
	}
	if c.isClosed || c.sentEnd {
		return 0, errChannelClosed
	}
	n := wanted
	if n > c.maySend {
		n = c.maySend
	}
	if n > maxDataBytes {
		n = maxDataBytes
	}
	c.maySend -= n
	return n, nil
}

// End tells the other side that nothing more follows.
func (c *channel) End() {
	c.mutex.Lock()
	isFirst := !c.sentEnd && !c.isClosed
	c.sentEnd = true
	c.mutex.Unlock()
	if isFirst {
		_ = c.session.send(frameEnd, c.id, nil)
		c.removeIfEnded()
	}
}

// Close resets the channel in both directions.
func (c *channel) Close() {
	if c.markClosed() {
		_ = c.session.send(frameClose, c.id, nil)
		c.session.remove(c.id)
	}
}

func (c *channel) markClosed() bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	isFirst := !c.isClosed && !c.isRemoved
	c.isClosed = true
	c.received = nil
	c.changed.Broadcast()
	return isFirst
}

// accept takes bytes of the other side. It fails if they exceed the credit.
func (c *channel) accept(data []byte) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.isClosed {
		return nil
	}
	if c.gotEnd || len(data) > c.mayGet {
		return errProtocol
	}
	c.mayGet -= len(data)
	if len(data) > 0 {
		c.received = append(c.received, data)
		c.changed.Broadcast()
	}
	return nil
}

func (c *channel) acceptEnd() {
	c.mutex.Lock()
	c.gotEnd = true
	c.changed.Broadcast()
	c.mutex.Unlock()
	c.removeIfEnded()
}

func (c *channel) acceptCredit(payload []byte) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	credit := int64(binary.BigEndian.Uint32(payload))
	if credit+int64(c.maySend) > 1<<31 {
		return errProtocol
	}
	c.maySend += int(credit)
	c.changed.Broadcast()
	return nil
}

func (c *channel) removeIfEnded() {
	c.mutex.Lock()
	c.isRemoved = c.gotEnd && c.sentEnd
	isRemoved := c.isRemoved
	c.mutex.Unlock()
	if isRemoved {
		c.session.remove(c.id)
	}
}
