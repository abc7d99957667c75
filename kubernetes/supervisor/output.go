package main

import (
	"fmt"
	"io"
	"sync"
)

const maxUnacknowledged = 1024 * 1024

// output keeps what the agent wrote until the worker has it. When too much is kept, nothing more is
// read, and the agent's writes block.
type output struct {
	mutex   sync.Mutex
	changed *sync.Cond
	data    []byte
	// Of the first byte in `data`.
	offset uint64
	// The agent is dead: the rest is no more than a pipe holds.
	isDraining bool
	isOver     bool
}

func newOutput() *output {
	o := &output{}
	o.changed = sync.NewCond(&o.mutex)
	return o
}

// readFrom copies the agent's output until its last process has closed it.
func (o *output) readFrom(pipe io.Reader) {
	buffer := make([]byte, maxDataBytes)
	for {
		n, err := pipe.Read(buffer)
		if n > 0 {
			o.add(buffer[:n])
		}
		if err != nil {
			return
		}
	}
}

func (o *output) add(data []byte) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	for len(o.data)+len(data) > maxUnacknowledged && !o.isDraining {
		o.changed.Wait()
	}
	o.data = append(o.data, data...)
	o.changed.Broadcast()
}

// wake lets `next` look at `closed`.
func (o *output) wake() {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.changed.Broadcast()
}

func (o *output) drain() {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.isDraining = true
	o.changed.Broadcast()
}

// finish is called when no more output can come.
func (o *output) finish() {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.isOver = true
	o.changed.Broadcast()
}

func (o *output) isAvailable(offset uint64) bool {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return offset <= o.offset+uint64(len(o.data))
}

// acknowledge drops what the worker has.
func (o *output) acknowledge(offset uint64) error {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if offset > o.offset+uint64(len(o.data)) {
		return fmt.Errorf("%w: output %d was never sent", errProtocol, offset)
	}
	if offset > o.offset {
		o.data = o.data[offset-o.offset:]
		o.offset = offset
		if len(o.data) == 0 {
			o.data = nil
		}
		o.changed.Broadcast()
	}
	return nil
}

// next waits for output from an offset on. `data` is empty if `closed` was closed.
func (o *output) next(from uint64, closed <-chan struct{}) (at uint64, data []byte, isOver bool) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	for {
		at = from
		if at < o.offset {
			at = o.offset
		}
		kept := o.data[at-o.offset:]
		if len(kept) > 0 {
			if len(kept) > maxDataBytes {
				kept = kept[:maxDataBytes]
			}
			// Bytes that are kept never change, so they can be sent without the lock.
			return at, kept, false
		}
		if o.isOver {
			return at, nil, true
		}
		select {
		case <-closed:
			return at, nil, false
		default:
		}
		o.changed.Wait()
	}
}
