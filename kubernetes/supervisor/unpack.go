package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
)

const (
	// What the worker expects in the cache, for the init container.
	layersVariable = "AGENTJOBS_CACHED_LAYERS"
	cacheDirectory = "/agentjobs-cache"
)

var digestPattern = regexp.MustCompile(`^[0-9a-f]{64}$`)

// cachedLayer is an archive of the cache, and the directory of the pod that it belongs in.
type cachedLayer struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
}

// unpackLayers leaves the paths of those that were in the cache for the supervisor. The worker
// sends all others.
func unpackLayers(text, cache, record string) error {
	var layers []cachedLayer
	if err := json.Unmarshal([]byte(text), &layers); err != nil {
		return fmt.Errorf("%s is not valid JSON: %w", layersVariable, err)
	}
	unpacked := []string{}
	for _, layer := range layers {
		if err := layer.unpack(cache); err != nil {
			fmt.Fprintf(os.Stderr, "agentjobs-supervisor: the cache has nothing for %s: %v\n", layer.Path, err)
			if err := removeContents(layer.Path); err != nil {
				return err
			}
			continue
		}
		unpacked = append(unpacked, layer.Path)
	}
	content, err := json.Marshal(unpacked)
	if err != nil {
		return err
	}
	return os.WriteFile(record, content, 0o444)
}

// unpack extracts the archive, and fails if it is not the one that the worker stored.
func (l *cachedLayer) unpack(cache string) error {
	file, err := l.open(cache)
	if err != nil {
		return err
	}
	defer file.Close()
	digest := sha256.New()
	content := io.TeeReader(io.LimitReader(file, l.Bytes), digest)
	if err := receiveFiles(bufio.NewReaderSize(content, 1<<20), l.Path); err != nil {
		return err
	}
	if hex.EncodeToString(digest.Sum(nil)) != l.SHA256 {
		return errors.New("the archive is damaged")
	}
	return nil
}

func (l *cachedLayer) open(cache string) (*os.File, error) {
	if !digestPattern.MatchString(l.SHA256) {
		return nil, errors.New("not a SHA-256 digest")
	}
	// Whatever has that name must neither block nor lead elsewhere.
	flags := os.O_RDONLY | syscall.O_NOFOLLOW | syscall.O_NONBLOCK
	file, err := os.OpenFile(filepath.Join(cache, l.SHA256), flags, 0)
	if err != nil {
		return nil, err
	}
	status, err := file.Stat()
	if err == nil && (!status.Mode().IsRegular() || status.Size() != l.Bytes) {
		err = errors.New("the archive is damaged")
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// unpackedRecord is beside the copied program, where only the init container can write.
func unpackedRecord(program string) string {
	return filepath.Join(filepath.Dir(program), "unpacked")
}

// readUnpacked is for the supervisor; most pods have no such file.
func readUnpacked(record string) []string {
	unpacked := []string{}
	if content, err := os.ReadFile(record); err == nil {
		_ = json.Unmarshal(content, &unpacked)
	}
	return unpacked
}

func removeContents(path string) error {
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	descriptor, err := openat(atFDCWD, path, openDirectory&^syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(descriptor)
	for _, entry := range entries {
		if err := removeTree(descriptor, entry.Name()); err != nil {
			return err
		}
	}
	return nil
}
