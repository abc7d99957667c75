package main

import (
	"bufio"
	"bytes"
	"io"
	"math/rand"
	"net"
	"testing"
)

func encode(kind frameType, payload []byte) []byte {
	data := make([]byte, headerBytes, headerBytes+len(payload))
	putHeader(data, kind, len(payload))
	return append(data, payload...)
}

func streamOf(data []byte) *stream {
	return newStream(nil, bufio.NewReader(bytes.NewReader(data)))
}

func TestStreamsArriveAsTheyWereWritten(t *testing.T) {
	here, there := net.Pipe()
	want := bytes.Repeat([]byte("0123456789"), 20_000)
	go func() {
		c := newStream(here, nil)
		_, _ = c.Write(want)
		c.End()
	}()
	got, err := io.ReadAll(newStream(there, bufio.NewReader(there)))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
}

func TestAStreamThatBreaksOffHasNoEnd(t *testing.T) {
	whole := append(encode(frameData, []byte("data")), encode(frameData, nil)...)
	if data, err := io.ReadAll(streamOf(whole)); err != nil || string(data) != "data" {
		t.Errorf("got %q, %v", data, err)
	}
	for length := range whole[:len(whole)-1] {
		if _, err := io.ReadAll(streamOf(whole[:length])); err == nil {
			t.Errorf("%d bytes had an end", length)
		}
	}
}

func TestFramesThatNobodyMaySendAreRefused(t *testing.T) {
	for name, data := range map[string][]byte{
		"data that is too long": encode(frameData, make([]byte, maxDataBytes+1)),
		"a message in data":     encode(frameMessage, []byte("{}")),
		"output of the worker":  encode(frameOutput, make([]byte, 9)),
		"an unknown type":       encode(99, nil),
	} {
		if _, err := io.ReadAll(streamOf(data)); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	for name, data := range map[string][]byte{
		"a message that is too long": encode(frameMessage, make([]byte, maxHelloBytes+1)),
		"data":                       encode(frameData, []byte("{}")),
		"no JSON":                    encode(frameMessage, []byte("x")),
	} {
		if _, err := readMessage(bytes.NewReader(data), maxHelloBytes); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

func TestAnyBytesAreAStreamOrAnError(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	for i := 0; i < 20000; i++ {
		data := make([]byte, random.Intn(64))
		random.Read(data)
		if len(data) > 0 {
			data[0] %= 4
		}
		if got, err := io.ReadAll(streamOf(data)); err == nil && len(got) > len(data) {
			t.Fatalf("%x gave %x", data, got)
		}
	}
}
