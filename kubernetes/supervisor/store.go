package main

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
	"time"
)

const (
	incomingPrefix = "incoming-"
	// Left by a pod that was killed. None takes as long.
	incomingLifetime = 2 * time.Hour
)

// storeArchive keeps an archive in the cache, in a pod that runs nothing else. It gets its SHA-256 digest
// as its name once it is complete. The oldest ones are removed for it.
func storeArchive(from io.Reader, cache string, maxBytes int64) error {
	removeIncoming(cache)
	file, err := createIncoming(cache)
	if err != nil {
		return err
	}
	writer := &cacheWriter{file: file, cache: cache, digest: sha256.New(), left: maxBytes}
	_, err = io.CopyBuffer(writer, from, make([]byte, maxDataBytes))
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(file.Name(), filepath.Join(cache, hex.EncodeToString(writer.digest.Sum(nil))))
	}
	if err != nil {
		os.Remove(file.Name())
		return err
	}
	trimCache(cache, maxBytes)
	return nil
}

func createIncoming(cache string) (*os.File, error) {
	suffix := make([]byte, 16)
	if _, err := rand.Read(suffix); err != nil {
		return nil, err
	}
	path := filepath.Join(cache, incomingPrefix+hex.EncodeToString(suffix))
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
}

// cacheWriter makes room on a full volume.
type cacheWriter struct {
	file   *os.File
	cache  string
	digest hash.Hash
	left   int64
}

func (w *cacheWriter) Write(data []byte) (int, error) {
	if w.left -= int64(len(data)); w.left < 0 {
		return 0, errors.New("the archive is larger than the cache may be")
	}
	written := 0
	for written < len(data) {
		n, err := w.file.Write(data[written:])
		written += n
		isFull := errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
		if err != nil && !(isFull && removeOldest(w.cache)) {
			return written, fmt.Errorf("the cache cannot be written: %w", err)
		}
	}
	return w.digest.Write(data)
}

// trimCache never removes the newest archive, which fits.
func trimCache(cache string, maxBytes int64) {
	for archivesBytes(cache) > maxBytes && removeOldest(cache) {
	}
}

func archivesBytes(cache string) (total int64) {
	for _, archive := range listArchives(cache) {
		total += archive.Size()
	}
	return total
}

func removeOldest(cache string) bool {
	archives := listArchives(cache)
	return len(archives) > 0 && os.Remove(filepath.Join(cache, archives[0].Name())) == nil
}

// listArchives returns the oldest ones first. The volume may have other files.
func listArchives(cache string) []os.FileInfo {
	archives := []os.FileInfo{}
	for _, status := range listFiles(cache) {
		if digestPattern.MatchString(status.Name()) {
			archives = append(archives, status)
		}
	}
	sort.Slice(archives, func(i, j int) bool { return archives[i].ModTime().Before(archives[j].ModTime()) })
	return archives
}

func removeIncoming(cache string) {
	for _, status := range listFiles(cache) {
		if strings.HasPrefix(status.Name(), incomingPrefix) && time.Since(status.ModTime()) > incomingLifetime {
			os.Remove(filepath.Join(cache, status.Name()))
		}
	}
}

func listFiles(cache string) []os.FileInfo {
	entries, err := os.ReadDir(cache)
	if err != nil {
		return nil
	}
	files := []os.FileInfo{}
	for _, entry := range entries {
		if status, err := entry.Info(); err == nil && status.Mode().IsRegular() {
			files = append(files, status)
		}
	}
	return files
}
