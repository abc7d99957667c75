package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"
)

const megabyte = 1 << 20

func archiveOf(t *testing.T, content string) []byte {
	t.Helper()
	var buffer bytes.Buffer
	archive := tar.NewWriter(&buffer)
	for _, name := range []string{"./a", "./deep/b"} {
		header := &tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(content))}
		if err := archive.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(archive, content)
	}
	archive.Close()
	return buffer.Bytes()
}

func digestOf(content []byte) string {
	digest := sha256.Sum256(content)
	return hex.EncodeToString(digest[:])
}

// unpackInto returns the paths that came from the cache.
func unpackInto(t *testing.T, cache, target string, archive []byte) []string {
	t.Helper()
	layers := []cachedLayer{{Path: target, SHA256: digestOf(archive), Bytes: int64(len(archive))}}
	text, _ := json.Marshal(layers)
	record := filepath.Join(t.TempDir(), "unpacked")
	if err := unpackLayers(string(text), cache, record); err != nil {
		t.Fatal(err)
	}
	return readUnpacked(record)
}

func namesIn(t *testing.T, path string) []string {
	t.Helper()
	entries, err := os.ReadDir(path)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func TestAnArchiveThatWasStoredIsUnpacked(t *testing.T) {
	cache, target, archive := t.TempDir(), t.TempDir(), archiveOf(t, "text")
	if err := storeArchive(bytes.NewReader(archive), cache, megabyte); err != nil {
		t.Fatal(err)
	}
	if names := namesIn(t, cache); len(names) != 1 || names[0] != digestOf(archive) {
		t.Fatalf("the cache has %v", names)
	}
	if unpacked := unpackInto(t, cache, target, archive); len(unpacked) != 1 || unpacked[0] != target {
		t.Fatalf("unpacked: %v", unpacked)
	}
	if content, err := os.ReadFile(filepath.Join(target, "deep", "b")); string(content) != "text" {
		t.Fatalf("%q, %v", content, err)
	}
}

func TestWhateverElseHasTheNameOfAnArchiveIsNotUsed(t *testing.T) {
	archive := archiveOf(t, "right")
	cases := map[string]func(path string) error{
		"nothing":       func(string) error { return nil },
		"other content": func(path string) error { return os.WriteFile(path, archiveOf(t, "wrong"), 0o644) },
		"shorter":       func(path string) error { return os.WriteFile(path, archive[:1024], 0o644) },
		"longer":        func(path string) error { return os.WriteFile(path, append(archive[:], 0), 0o644) },
		"no archive": func(path string) error {
			return os.WriteFile(path, bytes.Repeat([]byte("x"), len(archive)), 0o644)
		},
		"a FIFO":      func(path string) error { return syscall.Mkfifo(path, 0o644) },
		"a directory": func(path string) error { return os.Mkdir(path, 0o755) },
		"a link": func(path string) error {
			other := filepath.Join(filepath.Dir(path), "other")
			if err := os.WriteFile(other, archive, 0o644); err != nil {
				return err
			}
			return os.Symlink(other, path)
		},
	}
	for name, create := range cases {
		t.Run(name, func(t *testing.T) {
			cache, target := t.TempDir(), t.TempDir()
			if err := create(filepath.Join(cache, digestOf(archive))); err != nil {
				t.Fatal(err)
			}
			if unpacked := unpackInto(t, cache, target, archive); len(unpacked) != 0 {
				t.Errorf("unpacked: %v", unpacked)
			}
			if names := namesIn(t, target); len(names) != 0 {
				t.Errorf("left behind: %v", names)
			}
		})
	}
}

func TestADigestThatIsAPathIsNotFollowed(t *testing.T) {
	archive := archiveOf(t, "text")
	cache := t.TempDir()
	if err := os.WriteFile(filepath.Join(cache, "secret"), archive, 0o644); err != nil {
		t.Fatal(err)
	}
	layer := cachedLayer{Path: t.TempDir(), SHA256: "../" + filepath.Base(cache) + "/secret", Bytes: int64(len(archive))}
	if err := layer.unpack(cache); err == nil {
		t.Error("it was unpacked")
	}
}

func TestTheOldestArchivesMakeRoom(t *testing.T) {
	cache := t.TempDir()
	digests := []string{}
	for i := 0; i < 4; i++ {
		archive := archiveOf(t, strings.Repeat(fmt.Sprint(i), 1024))
		digests = append(digests, digestOf(archive))
		if err := storeArchive(bytes.NewReader(archive), cache, int64(2*len(archive))); err != nil {
			t.Fatal(err)
		}
		age := time.Now().Add(time.Duration(i-10) * time.Minute)
		if err := os.Chtimes(filepath.Join(cache, digests[i]), age, age); err != nil {
			t.Fatal(err)
		}
	}
	left := map[string]bool{}
	for _, name := range namesIn(t, cache) {
		left[name] = true
	}
	if len(left) != 2 || !left[digests[2]] || !left[digests[3]] {
		t.Errorf("%v of %v are left", left, digests)
	}
}

func TestAnArchiveThatDoesNotArriveLeavesNothing(t *testing.T) {
	archive := archiveOf(t, "text")
	cache := t.TempDir()
	interrupted := iotest.TimeoutReader(iotest.HalfReader(bytes.NewReader(archive)))
	if err := storeArchive(interrupted, cache, megabyte); err == nil {
		t.Error("an interrupted archive was stored")
	}
	if err := storeArchive(bytes.NewReader(archive), cache, 1024); err == nil {
		t.Error("an archive that is too large was stored")
	}
	if names := namesIn(t, cache); len(names) != 0 {
		t.Errorf("the cache has %v", names)
	}
}

func TestOnlyOldPartsOfArchivesAreRemoved(t *testing.T) {
	cache := t.TempDir()
	for name, age := range map[string]time.Duration{"incoming-old": 3 * time.Hour, "incoming-new": 0, "other": 3 * time.Hour} {
		path, then := filepath.Join(cache, name), time.Now().Add(-age)
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, then, then); err != nil {
			t.Fatal(err)
		}
	}
	removeIncoming(cache)
	if names := namesIn(t, cache); strings.Join(names, " ") != "incoming-new other" {
		t.Errorf("left: %v", names)
	}
}
