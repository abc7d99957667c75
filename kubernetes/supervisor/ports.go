package main

import (
	"fmt"
	"net"
	"sync"
	"time"
)

const (
	maxPortConnections = 512
	maxPorts           = 253
)

// ports are what the agent connects to and the worker serves.
type ports struct {
	supervisor *supervisor
	free       chan struct{}

	mutex     sync.Mutex
	listeners map[int]net.Listener
}

func newPorts(s *supervisor) *ports {
	return &ports{
		supervisor: s,
		free:       make(chan struct{}, maxPortConnections),
		listeners:  make(map[int]net.Listener),
	}
}

// listen opens all ports or none.
func (p *ports) listen(numbers []int) error {
	if len(numbers) > maxPorts {
		return fmt.Errorf("an agent can have %d ports, not %d", maxPorts, len(numbers))
	}
	opened := make(map[int]net.Listener)
	for _, number := range numbers {
		listener, err := net.Listen("tcp", fmt.Sprintf(":%d", number))
		if err != nil {
			for _, listener := range opened {
				listener.Close()
			}
			return fmt.Errorf("the ports of the sandbox could not be opened: %w", err)
		}
		opened[number] = listener
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for number, listener := range opened {
		number, listener := number, listener
		p.listeners[number] = listener
		goSafely(func() { p.serve(number, listener) })
	}
	return nil
}

func (p *ports) isOwn(number int) bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return number == p.supervisor.config.Port || p.listeners[number] != nil
}

func (p *ports) serve(number int, listener net.Listener) {
	for {
		p.free <- struct{}{}
		connection, err := listener.Accept()
		if err != nil {
			<-p.free
			time.Sleep(acceptPause)
			continue
		}
		goSafely(func() {
			defer func() { <-p.free }()
			p.relay(number, connection.(*net.TCPConn))
		})
	}
}

// relay serves the agent. Connections from other pods have another local address.
func (p *ports) relay(number int, connection *net.TCPConn) {
	defer connection.Close()
	local, ok := connection.LocalAddr().(*net.TCPAddr)
	if !ok || !local.IP.IsLoopback() {
		return
	}
	for {
		session := p.supervisor.currentSession()
		if c := session.request(number, local.IP.String()); c != nil {
			defer session.closeStream(c)
			relay(c, connection)
			return
		}
		// The worker reconnects.
	}
}
