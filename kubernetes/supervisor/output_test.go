package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestOutputIsSentAgainUntilItIsAcknowledged(t *testing.T) {
	o := newOutput()
	o.add([]byte("one two"))
	never := make(chan struct{})
	for i := 0; i < 2; i++ {
		if at, data, _ := o.next(4, never); at != 4 || string(data) != "two" {
			t.Fatalf("got %q at %d", data, at)
		}
	}
	if err := o.acknowledge(4); err != nil {
		t.Fatal(err)
	}
	// What is gone cannot be sent again: the offset tells.
	if at, data, _ := o.next(0, never); at != 4 || string(data) != "two" {
		t.Fatalf("got %q at %d", data, at)
	}
	if o.acknowledge(8) == nil {
		t.Error("output that was never written was acknowledged")
	}
	if o.isAvailable(8) || !o.isAvailable(7) {
		t.Error("output is available that was never written, or not available")
	}
}

func TestOutputThatIsKeptIsBoundedWhileTheAgentLives(t *testing.T) {
	o := newOutput()
	read := make(chan struct{})
	go func() {
		defer close(read)
		o.readFrom(strings.NewReader(strings.Repeat("x", 3*maxUnacknowledged)))
		o.finish()
	}()
	never := make(chan struct{})
	var offset uint64
	for {
		at, data, isOver := o.next(offset, never)
		if isOver {
			break
		}
		o.mutex.Lock()
		if len(o.data) > maxUnacknowledged {
			t.Fatalf("%d bytes are kept", len(o.data))
		}
		o.mutex.Unlock()
		if offset = at + uint64(len(data)); o.acknowledge(offset) != nil {
			t.Fatal("not acknowledged")
		}
	}
	<-read
	if offset != 3*maxUnacknowledged {
		t.Errorf("got %d bytes", offset)
	}
}

func TestOutputOfADeadAgentIsReadThoughNobodyAcknowledges(t *testing.T) {
	o := newOutput()
	o.add(bytes.Repeat([]byte("x"), maxUnacknowledged))
	o.drain()
	o.add([]byte("rest"))
	if _, data, _ := o.next(maxUnacknowledged, nil); string(data) != "rest" {
		t.Errorf("got %q", data)
	}
}

func TestWaitingForOutputEndsWithTheConnection(t *testing.T) {
	o := newOutput()
	closed := make(chan struct{})
	ended := make(chan bool)
	go func() {
		_, data, isOver := o.next(0, closed)
		ended <- len(data) == 0 && !isOver
	}()
	close(closed)
	o.wake()
	if !<-ended {
		t.Error("got output")
	}
}
