package main

import (
	"bufio"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"
)

const (
	maxUnauthenticated = 8
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
	free       chan struct{}
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
		free: make(chan struct{}, maxUnauthenticated),
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
		select {
		case s.free <- struct{}{}:
			goSafely(func() { s.authenticate(connection) })
		default:
			connection.Close()
		}
	}
}

// authenticate serves a connection with the token, which replaces the one before it.
func (s *server) authenticate(raw net.Conn) {
	connection := tls.Server(raw, s.tls)
	defer connection.Close()
	_ = connection.SetDeadline(time.Now().Add(helloTimeout))
	reader := bufio.NewReaderSize(connection, readBufferBytes)
	hello, err := s.readHello(reader)
	if err != nil {
		return
	}
	_ = connection.SetDeadline(time.Time{})
	s.supervisor.touch()
	s.supervisor.serveSession(newSession(connection, reader, s.supervisor), hello)
}

func (s *server) readHello(reader *bufio.Reader) (*message, error) {
	defer func() { <-s.free }()
	f, err := readFrame(reader, maxHelloBytes)
	if err != nil {
		return nil, err
	}
	hello := &message{}
	if f.kind != frameMessage || json.Unmarshal(f.payload, hello) != nil {
		return nil, errProtocol
	}
	digest := sha256.Sum256([]byte(hello.Token))
	if subtle.ConstantTimeCompare(digest[:], s.supervisor.config.tokenDigest) != 1 {
		return nil, errors.New("wrong token")
	}
	if hello.Type != "hello" || hello.Version != protocolVersion {
		return nil, errProtocol
	}
	return hello, nil
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
