package main

import (
	"bufio"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

const (
	maxUnauthenticated = 32
	helloTimeout       = 10 * time.Second
	readBufferBytes    = 64 * 1024
	// After an error such as too many open files.
	acceptPause = 50 * time.Millisecond
)

var longAgo = time.Unix(1, 0)

// server accepts the worker's connections.
type server struct {
	supervisor *supervisor
	listener   net.Listener
	tls        *tls.Config
	hasNetwork bool
	waiting    waiting
}

func listen(s *supervisor) (*server, error) {
	listener, err := net.Listen("tcp", fmt.Sprintf(":%d", s.config.Port))
	if err != nil {
		return nil, err
	}
	return &server{
		supervisor: s,
		listener:   listener,
		hasNetwork: hasNetwork(),
		tls: &tls.Config{
			Certificates:                []tls.Certificate{s.config.certificate},
			MinVersion:                  tls.VersionTLS13,
			SessionTicketsDisabled:      true,
			DynamicRecordSizingDisabled: true,
		},
	}, nil
}

func (s *server) serve() {
	for {
		connection, err := s.listener.Accept()
		if err != nil {
			time.Sleep(acceptPause)
			continue
		}
		if isFromInside(connection, s.hasNetwork) {
			connection.Close()
			continue
		}
		s.waiting.add(connection)
		goSafely(func() { s.authenticate(connection) })
	}
}

// authenticate serves a connection with the token: a new session, which replaces the one before it, or
// another stream of that.
func (s *server) authenticate(raw net.Conn) {
	connection := tls.Server(raw, s.tls)
	_ = connection.SetDeadline(time.Now().Add(helloTimeout))
	reader := bufio.NewReaderSize(connection, readBufferBytes)
	hello, err := s.readHello(reader)
	s.waiting.remove(raw)
	if err != nil {
		connection.Close()
		return
	}
	_ = connection.SetDeadline(time.Time{})
	s.supervisor.touch()
	c := newStream(connection, reader)
	if hello.Type == "hello" {
		s.supervisor.serveSession(newSession(c, s.supervisor), hello)
	} else if session := s.supervisor.findSession(hello.Session); session != nil {
		session.goSafely(func() { session.serveStream(c, hello) })
	} else {
		connection.Close()
	}
}

func (s *server) readHello(reader *bufio.Reader) (*message, error) {
	hello, err := readMessage(reader, maxHelloBytes)
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256([]byte(hello.Token))
	if subtle.ConstantTimeCompare(digest[:], s.supervisor.config.tokenDigest) != 1 {
		return nil, errors.New("wrong token")
	}
	if hello.Version != protocolVersion {
		return nil, errProtocol
	}
	return hello, nil
}

// waiting are the connections that have not authenticated yet, oldest first.
type waiting struct {
	mutex       sync.Mutex
	connections []net.Conn
}

// add closes the oldest connection of the address with the most if there are too many, so that nobody
// can keep out a worker, which has another address.
func (w *waiting) add(connection net.Conn) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.connections = append(w.connections, connection)
	if len(w.connections) > maxUnauthenticated {
		w.removeAt(w.mostCrowded()).Close()
	}
}

func (w *waiting) remove(connection net.Conn) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for i := range w.connections {
		if w.connections[i] == connection {
			w.removeAt(i)
			return
		}
	}
}

func (w *waiting) removeAt(i int) net.Conn {
	removed := w.connections[i]
	w.connections = append(w.connections[:i], w.connections[i+1:]...)
	return removed
}

func (w *waiting) mostCrowded() (index int) {
	counts := make(map[string]int)
	most := 0
	// Backwards: the oldest connection of an address completes its count.
	for i := len(w.connections) - 1; i >= 0; i-- {
		host, _, _ := net.SplitHostPort(w.connections[i].RemoteAddr().String())
		if counts[host]++; counts[host] >= most {
			most, index = counts[host], i
		}
	}
	return index
}

// isFromInside tells the agent's own connections, which could use up the unauthenticated ones.
func isFromInside(connection net.Conn, hasNetwork bool) bool {
	remote, isTCP := connection.RemoteAddr().(*net.TCPAddr)
	local, _ := connection.LocalAddr().(*net.TCPAddr)
	if !isTCP || !hasNetwork {
		return false
	}
	return remote.IP.IsLoopback() || local.IP.IsLoopback() || remote.IP.Equal(local.IP) || isOwn(remote.IP)
}

// isOwn compares all addresses of the pod, because an agent can connect from one of them to another.
func isOwn(ip net.IP) bool {
	for _, network := range ownNetworks() {
		if network.IP.Equal(ip) {
			return true
		}
	}
	return false
}

// hasNetwork is false if there is only loopback: then the worker comes from there, too.
func hasNetwork() bool {
	for _, network := range ownNetworks() {
		if network.IP.IsGlobalUnicast() {
			return true
		}
	}
	return false
}

func ownNetworks() []*net.IPNet {
	addresses, _ := net.InterfaceAddrs()
	networks := make([]*net.IPNet, 0, len(addresses))
	for _, address := range addresses {
		if network, ok := address.(*net.IPNet); ok {
			networks = append(networks, network)
		}
	}
	return networks
}
