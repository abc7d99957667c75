package main

import (
	"bytes"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// One more than a service may have.
	maxListedPorts  = 33
	maxAddresses    = 64
	maxDialSeconds  = 30
	listeningSocket = "0A"
	ipv4InIPv6      = "0000000000000000FFFF0000"
)

// 0.0.0.0, 127.0.0.1, ::, ::1, and the first two in IPv6, as the kernel's tables show them.
var localHosts = map[string]bool{
	"00000000":                           true,
	"0100007F":                           true,
	strings.Repeat("0", 32):              true,
	strings.Repeat("0", 24) + "01000000": true,
	ipv4InIPv6 + "00000000":              true,
	ipv4InIPv6 + "0100007F":              true,
}

// listeningPorts are those of the agent, or of a service.
func (s *supervisor) listeningPorts() []int {
	ports := map[int]bool{}
	for _, path := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		if table, err := os.ReadFile(path); err == nil {
			parsePorts(table, ports)
		}
	}
	list := make([]int, 0, len(ports))
	for port := range ports {
		if !s.ports.isOwn(port) {
			list = append(list, port)
		}
	}
	sort.Ints(list)
	if len(list) > maxListedPorts {
		list = list[:maxListedPorts]
	}
	return list
}

func parsePorts(table []byte, ports map[int]bool) {
	for _, row := range bytes.Split(table, []byte("\n"))[1:] {
		fields := strings.Fields(string(row))
		if len(fields) < 4 || fields[3] != listeningSocket {
			// The kernel lists listening sockets first.
			return
		}
		host, port, _ := strings.Cut(fields[1], ":")
		if number, err := strconv.ParseUint(port, 16, 16); err == nil && localHosts[host] {
			ports[int(number)] = true
		}
	}
}

func findPrograms(names []string, path string) map[string]string {
	paths := make(map[string]string)
	for _, name := range names {
		for _, directory := range filepath.SplitList(path) {
			candidate := filepath.Join(directory, name)
			status, err := os.Stat(candidate)
			if err == nil && status.Mode().IsRegular() && isExecutable(candidate) {
				paths[name] = candidate
				break
			}
		}
	}
	return paths
}

// dialAll says for each address whether a connection can be opened.
func dialAll(addresses []string, seconds float64) map[string]string {
	if len(addresses) > maxAddresses {
		addresses = addresses[:maxAddresses]
	}
	if !(seconds > 0 && seconds <= maxDialSeconds) {
		seconds = maxDialSeconds
	}
	timeout := time.Duration(seconds * float64(time.Second))
	var mutex sync.Mutex
	var waiting sync.WaitGroup
	results := make(map[string]string)
	for _, address := range addresses {
		address := address
		waiting.Add(1)
		goSafely(func() {
			defer waiting.Done()
			result := dial(address, timeout)
			mutex.Lock()
			defer mutex.Unlock()
			results[address] = result
		})
	}
	waiting.Wait()
	return results
}

func dial(address string, timeout time.Duration) string {
	connection, err := net.DialTimeout("tcp", address, timeout)
	var netError net.Error
	switch {
	case err == nil:
		connection.Close()
		return "open"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case errors.As(err, &netError) && netError.Timeout():
		return "timeout"
	}
	return "unreachable"
}
