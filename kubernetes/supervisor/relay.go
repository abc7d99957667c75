package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

const (
	relayBufferBytes = 32 * 1024
	connectTimeout   = 10 * time.Second
)

// connectTo connects the worker to a port inside.
func connectTo(c *stream, port int) error {
	connection, err := connectInside(port)
	if err != nil {
		return err
	}
	relay(c, connection)
	return nil
}

func connectInside(port int) (*net.TCPConn, error) {
	if port < 1 || port > 65535 {
		return nil, errors.New("not a port number")
	}
	var err error
	for _, host := range []string{"127.0.0.1", "[::1]"} {
		var connection net.Conn
		connection, err = net.DialTimeout("tcp", fmt.Sprintf("%s:%d", host, port), connectTimeout)
		if err == nil {
			return connection.(*net.TCPConn), nil
		}
	}
	return nil, err
}

// relay copies both directions until both have ended.
func relay(c *stream, connection *net.TCPConn) {
	defer connection.Close()
	var inward sync.WaitGroup
	inward.Add(1)
	goSafely(func() {
		defer inward.Done()
		if copyStream(connection, c) != nil || connection.CloseWrite() != nil {
			c.Close()
			connection.Close()
		}
	})
	if copyStream(c, connection) != nil {
		c.Close()
		connection.Close()
	} else {
		c.End()
	}
	inward.Wait()
}

func copyStream(to io.Writer, from io.Reader) error {
	buffer := make([]byte, relayBufferBytes)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
