package main

import (
	"sync"
	"time"
)

const (
	watchInterval = 100 * time.Millisecond
	// Measuring takes at most a tenth of the time, however much there is to measure.
	pauseFactor = 10
)

// gauge says which limit the agent exceeds, if any.
type gauge interface {
	exceededLimit() string
}

// watch reads the gauges until the agent has ended.
type watch struct {
	gauges []gauge
	stop   chan struct{}
	once   sync.Once
	ended  sync.WaitGroup
	// Read again at the end: the kernel may have killed the agent just now.
	memory gauge
}

func newWatch(l limits, directories []string) *watch {
	w := &watch{stop: make(chan struct{}), memory: newMemoryGauge()}
	w.gauges = append(w.gauges, w.memory)
	if l.CPUSeconds > 0 {
		w.gauges = append(w.gauges, newCPUGauge(l.CPUSeconds))
	}
	if l.WorkspaceBytes > 0 && len(directories) > 0 {
		w.gauges = append(w.gauges, newDiskGauge(l.WorkspaceBytes, directories, w.stop))
	}
	w.ended.Add(len(w.gauges))
	return w
}

func (w *watch) run(onExceeded func(string)) {
	for _, g := range w.gauges {
		g := g
		goSafely(func() {
			defer w.ended.Done()
			w.read(g, onExceeded)
		})
	}
}

func (w *watch) read(g gauge, onExceeded func(string)) {
	pause := watchInterval
	for {
		select {
		case <-w.stop:
			return
		case <-time.After(pause):
		}
		begin := time.Now()
		if limit := g.exceededLimit(); limit != "" {
			onExceeded(limit)
			return
		}
		if pause = time.Since(begin) * pauseFactor; pause < watchInterval {
			pause = watchInterval
		}
	}
}

// end stops measuring, and returns a limit that was exceeded at the last moment.
func (w *watch) end() string {
	w.once.Do(func() { close(w.stop) })
	w.ended.Wait()
	return w.memory.exceededLimit()
}
