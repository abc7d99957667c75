package main

import (
	"sync"
	"time"
)

const (
	// A disk fills quickly.
	diskInterval  = 100 * time.Millisecond
	usageInterval = 500 * time.Millisecond
	// Measuring takes at most a tenth of the time, however much there is to measure.
	pauseFactor = 10
)

// gauge says which limit the agent exceeds, if any.
type gauge interface {
	exceededLimit() string
}

// watch reads the gauges until the agent has ended.
type watch struct {
	gauges map[gauge]time.Duration
	stop   chan struct{}
	once   sync.Once
	ended  sync.WaitGroup
	// Read again at the end: the kernel may have killed the agent just now.
	memory gauge
}

func newWatch(l limits, paths []string) *watch {
	w := &watch{stop: make(chan struct{}), memory: newMemoryGauge()}
	w.gauges = map[gauge]time.Duration{w.memory: usageInterval}
	if l.CPUSeconds > 0 {
		w.gauges[newCPUGauge(l.CPUSeconds)] = usageInterval
	}
	if l.WorkspaceBytes > 0 && len(paths) > 0 {
		w.gauges[newDiskGauge(l.WorkspaceBytes, paths, w.stop)] = diskInterval
	}
	w.ended.Add(len(w.gauges))
	return w
}

func (w *watch) run(onExceeded func(string)) {
	for g, interval := range w.gauges {
		g, interval := g, interval
		goSafely(func() {
			defer w.ended.Done()
			w.read(g, interval, onExceeded)
		})
	}
}

func (w *watch) read(g gauge, interval time.Duration, onExceeded func(string)) {
	pause := interval
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
		if pause = time.Since(begin) * pauseFactor; pause < interval {
			pause = interval
		}
	}
}

// end stops measuring, and returns a limit that was exceeded at the last moment.
func (w *watch) end() string {
	w.once.Do(func() { close(w.stop) })
	w.ended.Wait()
	return w.memory.exceededLimit()
}
