package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

const (
	protocolVersion = 2
	headerBytes     = 5
	maxDataBytes    = 64 * 1024
	maxMessageBytes = 8 * 1024 * 1024
	// Before the worker has authenticated itself.
	maxHelloBytes = 4096
	offsetBytes   = 8
)

type frameType uint8

const (
	frameMessage frameType = iota
	// Without a payload, it is the end of the sender's data.
	frameData
	// Only the supervisor sends output.
	frameOutput
)

var errProtocol = errors.New("protocol error")

// readHeader refuses a frame that is not of this type, or longer than it may be.
func readHeader(reader io.Reader, kind frameType, maxBytes int) (length int, err error) {
	var header [headerBytes]byte
	if _, err := io.ReadFull(reader, header[:]); err != nil {
		return 0, err
	}
	size := binary.BigEndian.Uint32(header[1:])
	if frameType(header[0]) != kind || int64(size) > int64(maxBytes) {
		return 0, fmt.Errorf("%w: a frame of type %d with %d bytes", errProtocol, header[0], size)
	}
	return int(size), nil
}

func readMessage(reader io.Reader, maxBytes int) (*message, error) {
	length, err := readHeader(reader, frameMessage, maxBytes)
	if err != nil {
		return nil, err
	}
	payload := make([]byte, length)
	if _, err := io.ReadFull(reader, payload); err != nil {
		return nil, err
	}
	m := &message{}
	if err := json.Unmarshal(payload, m); err != nil {
		return nil, fmt.Errorf("%w: %v", errProtocol, err)
	}
	return m, nil
}

func putHeader(buffer []byte, kind frameType, length int) {
	buffer[0] = byte(kind)
	binary.BigEndian.PutUint32(buffer[1:], uint32(length))
}
