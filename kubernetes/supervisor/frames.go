package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

const (
	protocolVersion = 1
	headerBytes     = 9
	maxDataBytes    = 64 * 1024
	maxMessageBytes = 8 * 1024 * 1024
	// Before the worker has authenticated itself.
	maxHelloBytes = 4096
	offsetBytes   = 8
	initialCredit = 1024 * 1024
)

type frameType uint8

const (
	frameMessage frameType = iota
	frameOpen
	frameData
	frameEnd
	frameClose
	frameCredit
	frameOutput
	frameAck
)

var errProtocol = errors.New("protocol error")

type frame struct {
	kind    frameType
	channel uint32
	payload []byte
}

// readFrame refuses a length that its type does not allow before it reads the payload.
func readFrame(reader io.Reader, maxMessage int) (frame, error) {
	var header [headerBytes]byte
	if _, err := io.ReadFull(reader, header[:]); err != nil {
		return frame{}, err
	}
	f := frame{kind: frameType(header[0]), channel: binary.BigEndian.Uint32(header[1:])}
	length := int64(binary.BigEndian.Uint32(header[5:]))
	if !isAllowedLength(f.kind, length, maxMessage) {
		return frame{}, fmt.Errorf("%w: a frame of type %d with %d bytes", errProtocol, f.kind, length)
	}
	if (f.channel == 0) != isConnectionFrame(f.kind) {
		return frame{}, fmt.Errorf("%w: a frame of type %d on channel %d", errProtocol, f.kind, f.channel)
	}
	f.payload = make([]byte, length)
	_, err := io.ReadFull(reader, f.payload)
	return f, err
}

func isAllowedLength(kind frameType, length int64, maxMessage int) bool {
	switch kind {
	case frameMessage:
		return length <= int64(maxMessage)
	case frameOpen, frameData:
		return length <= maxDataBytes
	case frameEnd, frameClose:
		return length == 0
	case frameCredit:
		return length == 4
	case frameAck:
		return length == offsetBytes
	}
	// The worker sends no output.
	return false
}

func isConnectionFrame(kind frameType) bool {
	return kind == frameMessage || kind == frameOutput || kind == frameAck
}

func putHeader(buffer []byte, kind frameType, channel uint32, length int) {
	buffer[0] = byte(kind)
	binary.BigEndian.PutUint32(buffer[1:], channel)
	binary.BigEndian.PutUint32(buffer[5:], uint32(length))
}
