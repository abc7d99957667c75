package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// message is any message of the worker; `Type` says which fields it has.
type message struct {
	Type string `json:"type"`
	ID   uint64 `json:"id"`

	// The first message of each connection has a token. Its type is "hello", or what a stream is for.
	Version int    `json:"version"`
	Token   string `json:"token"`
	Session uint64 `json:"session"`

	command

	// Of the output.
	Offset    uint64   `json:"offset"`
	Names     []string `json:"names"`
	Path      string   `json:"path"`
	Track     bool     `json:"track"`
	Addresses []string `json:"addresses"`
	Seconds   float64  `json:"seconds"`
	Port      int      `json:"port"`
	// Of each file of a download.
	MaxFileBytes int64 `json:"max_file_bytes"`
	// Of the whole cache.
	MaxBytes int64 `json:"max_bytes"`
}

// command is the agent's, as the worker prepares it.
type command struct {
	Argv        []string          `json:"argv"`
	Environment map[string]string `json:"environment"`
	Directory   string            `json:"directory"`
	Seccomp     []byte            `json:"seccomp"`
	Nice        int               `json:"nice"`
	OOMScore    int               `json:"oom_score_adj"`
	Ports       []int             `json:"ports"`
	Limits      limits            `json:"limits"`
}

// check refuses what the kernel could not start.
func (c *command) check() error {
	if len(c.Argv) == 0 || c.Argv[0] == "" {
		return errors.New("the command is empty")
	}
	if !filepath.IsAbs(c.Directory) {
		return fmt.Errorf("%q is not an absolute path", c.Directory)
	}
	texts := append([]string{c.Directory}, c.Argv...)
	for name, value := range c.Environment {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			return fmt.Errorf("%q is not the name of an environment variable", name)
		}
		texts = append(texts, value)
	}
	for _, text := range texts {
		if strings.ContainsRune(text, 0) {
			return errors.New("the command or an environment variable of the agent contains a NUL")
		}
	}
	return nil
}

// limits of the agent; 0 means none.
type limits struct {
	FileBytes      uint64 `json:"file_bytes"`
	Processes      uint64 `json:"processes"`
	OpenFiles      uint64 `json:"open_files"`
	CPUSeconds     uint64 `json:"cpu_seconds"`
	WorkspaceBytes uint64 `json:"workspace_bytes"`
}

type ended struct {
	Type       string  `json:"type"`
	ExitCode   *int    `json:"exit_code"`
	Exceeded   *string `json:"exceeded"`
	DurationMS int64   `json:"duration_ms"`
}

// fields of a message of the supervisor.
type fields map[string]interface{}

func failed(id uint64, reason error) fields {
	return fields{"type": "failed", "id": id, "reason": reason.Error()}
}
