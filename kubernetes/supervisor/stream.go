package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"sync"
)

// stream is an authenticated connection of the worker, which carries bytes in each direction.
type stream struct {
	connection net.Conn
	reader     *bufio.Reader
	// Bytes of the current frame that were not read yet.
	unread  int
	gotEnd  bool
	sentEnd bool

	writing sync.Mutex
	buffer  []byte
}

func newStream(connection net.Conn, reader *bufio.Reader) *stream {
	return &stream{
		connection: connection,
		reader:     reader,
		buffer:     make([]byte, headerBytes+offsetBytes+maxDataBytes),
	}
}

// Read returns io.EOF after the worker's end, and another error if the connection ends before it.
func (c *stream) Read(buffer []byte) (n int, err error) {
	if c.unread == 0 && !c.gotEnd {
		if c.unread, err = readHeader(c.reader, frameData, maxDataBytes); err != nil {
			return 0, unexpected(err)
		}
		c.gotEnd = c.unread == 0
	}
	if c.gotEnd {
		return 0, io.EOF
	}
	if len(buffer) > c.unread {
		buffer = buffer[:c.unread]
	}
	n, err = c.reader.Read(buffer)
	c.unread -= n
	return n, unexpected(err)
}

func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (c *stream) Write(data []byte) (int, error) {
	written := 0
	for written < len(data) {
		part := data[written:]
		if len(part) > maxDataBytes {
			part = part[:maxDataBytes]
		}
		if err := c.send(frameData, part); err != nil {
			return written, err
		}
		written += len(part)
	}
	return written, nil
}

// End tells the worker that nothing more follows.
func (c *stream) End() {
	if !c.sentEnd {
		c.sentEnd = true
		_ = c.send(frameData, nil)
	}
}

// Close also wakes a Write that waits for the worker.
func (c *stream) Close() {
	_ = c.connection.SetDeadline(longAgo)
	c.connection.Close()
}

// fail tells the worker why there is no more, and waits until it has closed the stream: what it is
// still sending could otherwise make the reason disappear.
func (c *stream) fail(err error) {
	_ = c.sendMessage(failed(0, err))
	_, _ = io.Copy(io.Discard, c)
}

func (c *stream) sendMessage(value interface{}) error {
	payload, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return c.send(frameMessage, payload)
}

func (c *stream) sendOutput(offset uint64, data []byte) error {
	var encoded [offsetBytes]byte
	binary.BigEndian.PutUint64(encoded[:], offset)
	return c.send(frameOutput, encoded[:], data)
}

// send writes one frame. It blocks while the worker does not read.
func (c *stream) send(kind frameType, parts ...[]byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	frame := c.buffer[:headerBytes]
	for _, part := range parts {
		frame = append(frame, part...)
	}
	putHeader(frame, kind, len(frame)-headerBytes)
	_, err := c.connection.Write(frame)
	if err != nil {
		c.connection.Close()
	}
	return err
}
