package main

import (
	"bytes"
	"math/rand"
	"testing"
)

func encode(kind frameType, channel uint32, payload []byte) []byte {
	data := make([]byte, headerBytes, headerBytes+len(payload))
	putHeader(data, kind, channel, len(payload))
	return append(data, payload...)
}

func TestFramesAreReadAsTheyWereWritten(t *testing.T) {
	for _, want := range []frame{
		{frameMessage, 0, []byte(`{"type":"ping"}`)},
		{frameData, 7, bytes.Repeat([]byte("x"), maxDataBytes)},
		{frameEnd, 1 << 31, []byte{}},
		{frameCredit, 2, []byte{0, 0, 1, 0}},
	} {
		got, err := readFrame(bytes.NewReader(encode(want.kind, want.channel, want.payload)), maxMessageBytes)
		if err != nil || got.kind != want.kind || got.channel != want.channel || !bytes.Equal(got.payload, want.payload) {
			t.Errorf("%v: got %v, %v", want.kind, got, err)
		}
	}
}

func TestFramesThatNobodyMaySendAreRefused(t *testing.T) {
	for name, data := range map[string][]byte{
		"data that is too long":      encode(frameData, 2, make([]byte, maxDataBytes+1)),
		"a message that is too long": encode(frameMessage, 0, make([]byte, maxHelloBytes+1)),
		"a message on a channel":     encode(frameMessage, 2, nil),
		"data without a channel":     encode(frameData, 0, []byte("x")),
		"an end with a payload":      encode(frameEnd, 2, []byte("x")),
		"a short credit":             encode(frameCredit, 2, []byte{1}),
		"output of the worker":       encode(frameOutput, 0, make([]byte, 9)),
		"an unknown type":            encode(99, 0, nil),
	} {
		if _, err := readFrame(bytes.NewReader(data), maxHelloBytes); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

func TestAnyBytesAreAFrameOrAnError(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	for i := 0; i < 20000; i++ {
		data := make([]byte, random.Intn(64))
		random.Read(data)
		if len(data) > 0 {
			data[0] %= 10
		}
		if f, err := readFrame(bytes.NewReader(data), maxMessageBytes); err == nil && len(f.payload) > len(data) {
			t.Fatalf("%x gave %v", data, f)
		}
	}
}
