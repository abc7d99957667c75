package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// message is any message of the worker; `Type` says which fields it has.
type message struct {
	Type       string `json:"type"`
	Version    int    `json:"version"`
	Token      string `json:"token"`
	OutputFrom uint64 `json:"output_from"`

	command

	Names     []string `json:"names"`
	Path      string   `json:"path"`
	Addresses []string `json:"addresses"`
	Seconds   float64  `json:"seconds"`
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

type helloReply struct {
	Type         string `json:"type"`
	Version      int    `json:"version"`
	Architecture string `json:"architecture"`
	State        string `json:"state"`
	Ended        *ended `json:"ended"`
	// Directories that have the files of their layer from the cache.
	Unpacked []string `json:"unpacked"`
}

type ended struct {
	Type       string  `json:"type"`
	ExitCode   *int    `json:"exit_code"`
	Exceeded   *string `json:"exceeded"`
	DurationMS int64   `json:"duration_ms"`
}

type reply struct {
	Type string `json:"type"`
}

type failedReply struct {
	Type    string `json:"type"`
	Channel uint32 `json:"channel,omitempty"`
	Reason  string `json:"reason"`
}

type uploadedReply struct {
	Type    string  `json:"type"`
	Channel uint32  `json:"channel"`
	Entries int     `json:"entries"`
	Error   *string `json:"error"`
}

type portsReply struct {
	Type  string `json:"type"`
	Ports []int  `json:"ports"`
}

type programsReply struct {
	Type  string            `json:"type"`
	Paths map[string]string `json:"paths"`
}

type dialedReply struct {
	Type    string            `json:"type"`
	Results map[string]string `json:"results"`
}

type existenceReply struct {
	Type   string `json:"type"`
	Path   string `json:"path"`
	Exists bool   `json:"exists"`
}

// opening is the payload of OPEN: what a channel is for.
type opening struct {
	Kind    string `json:"kind"`
	Path    string `json:"path,omitempty"`
	Track   bool   `json:"track,omitempty"`
	Changes bool   `json:"changes,omitempty"`
	// Of a download.
	MaxFileBytes int64  `json:"max_file_bytes,omitempty"`
	Port         int    `json:"port,omitempty"`
	Number       int    `json:"number,omitempty"`
	Address      string `json:"address,omitempty"`
	// Of the whole cache.
	MaxBytes int64 `json:"max_bytes,omitempty"`
}
