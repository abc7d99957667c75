package main

import (
	"net"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestNamesOfUploadsStayBelowTheirDirectory(t *testing.T) {
	for name, want := range map[string]string{
		"./": "", "": "", "a": "a", "./a/b/": "a b", "a//b/./c": "a b c", "..a/b..": "..a b..",
	} {
		parents, last, err := splitName(name)
		got := strings.TrimSpace(strings.Join(parents, " ") + " " + last)
		if err != nil || got != want {
			t.Errorf("%q: got %q, %v", name, got, err)
		}
	}
	for _, name := range []string{"..", "/a", "a/../b", "a/..", "../a", "a\x00b"} {
		if _, _, err := splitName(name); err == nil {
			t.Errorf("%q was accepted", name)
		}
	}
}

func TestListeningPortsAreThoseOnLoopbackOrAnyAddress(t *testing.T) {
	table := "  sl  local_address rem_address   st\n" +
		"   0: 0100007F:1F90 00000000:0000 0A x\n" +
		"   1: 00000000:0050 00000000:0000 0A x\n" +
		"   2: 0100470A:0051 00000000:0000 0A x\n" +
		"   3: broken 00000000:0000 0A x\n" +
		"   4: 0100007F:1F91 0100007F:1F90 01 x\n" +
		"   5: 0100007F:1F92 00000000:0000 0A x\n"
	ports := map[int]bool{}
	parsePorts([]byte(table), ports)
	if want := map[int]bool{8080: true, 80: true}; !reflect.DeepEqual(ports, want) {
		t.Errorf("got %v", ports)
	}
}

func TestTheNameOfAProcessCannotForgeItsTimes(t *testing.T) {
	line := "7 (a) 1 (b)) S 1 7 7 0 -1 0 0 0 0 0 10 20 30 40 20 0 1 0 555 0 0"
	process, start, isValid := parseStat(line)
	if !isValid || process != (processStat{own: 30, children: 70}) || start != "555" {
		t.Errorf("got %v, %q, %v", process, start, isValid)
	}
	for _, broken := range []string{"", ")", "7 (a) S 1", "7 a S 1 7 7"} {
		if _, _, isValid := parseStat(broken); isValid {
			t.Errorf("%q was accepted", broken)
		}
	}
}

func TestTimesOfProcessesThatNobodyWaitedForCount(t *testing.T) {
	times := processTimes{}
	times.seconds(map[string]processStat{ownKey: {}, "2 100": {own: 300}})
	got := times.seconds(map[string]processStat{ownKey: {own: 9999}, "3 200": {own: 100}})
	if got != 4 {
		t.Errorf("got %v", got)
	}
}

func TestEveryFrameOfTheWorkerExtendsTheTimeOfItsAgent(t *testing.T) {
	s := newSupervisor(&config{OrphanSeconds: 3})
	if left := s.timeLeft(sinceStart()); left < 50*time.Second {
		t.Errorf("%v for the first contact", left)
	}
	for i := 0; i < 2; i++ {
		s.touch()
		last := time.Duration(s.lastFrame.Load())
		if left := s.timeLeft(last + time.Second); left != 2*time.Second {
			t.Errorf("%v are left", left)
		}
		if left := s.timeLeft(last + 4*time.Second); left > 0 {
			t.Errorf("%v are left without a worker", left)
		}
	}
}

type addresses struct {
	net.Conn
	local, remote string
}

func (a addresses) LocalAddr() net.Addr  { return &net.TCPAddr{IP: net.ParseIP(a.local)} }
func (a addresses) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(a.remote)} }

func TestConnectionsFromInsideThePodAreToldApart(t *testing.T) {
	for _, inside := range []addresses{
		{local: "127.0.0.1", remote: "127.0.0.1"},
		{local: "10.1.2.3", remote: "10.1.2.3"},
		{local: "10.1.2.3", remote: "127.0.0.1"},
		{local: "127.0.0.1", remote: "10.1.2.3"},
		{local: "::1", remote: "::1"},
		{local: "fd00::1", remote: "fd00::1"},
	} {
		if !isFromInside(inside, true) {
			t.Errorf("%v was accepted", inside)
		}
		if isFromInside(inside, false) {
			t.Errorf("%v was refused, and there is no other way in", inside)
		}
	}
	if isFromInside(addresses{local: "10.1.2.3", remote: "10.9.9.9"}, true) {
		t.Error("the worker was refused")
	}
	for _, network := range ownNetworks() {
		if !isFromInside(addresses{local: "10.1.2.3", remote: network.IP.String()}, true) {
			t.Errorf("%v, another address of the pod, was accepted", network)
		}
	}
}

func TestAConfigurationThatIsIncompleteIsRefusedInWords(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "only a worker starts this program",
		"{":                      "not valid JSON",
		`{"certificate":"none"}`: "no usable certificate",
	} {
		if _, err := loadConfig(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v", text, err)
		}
	}
}

func TestWritableMountsOnDiskAreFound(t *testing.T) {
	table := "707 592 0:121 / / ro,relatime - overlay overlay rw\n" +
		"708 592 0:121 / / rw - overlay overlay rw\n" +
		"710 707 0:147 / /dev rw,nosuid - tmpfs tmpfs rw\n" +
		"725 707 0:105 / /tmp rw - tmpfs tmpfs rw\n" +
		"730 710 254:0 /x /dev/termination-log rw,relatime - ext4 /dev/vda rw\n" +
		"731 707 254:0 /y /etc/hostname ro,relatime - ext4 /dev/vda rw\n" +
		"732 707 254:0 /v /data\\040of\\134it rw,relatime shared:1 master:2 - xfs /dev/vda rw\n" +
		"broken\n- -\n 1 2 3 - ext4\n"
	want := []string{"/data of\\it", "/dev/termination-log"}
	if got := parseDiskMounts(table); !reflect.DeepEqual(got, want) {
		t.Errorf("got %q", got)
	}
}
