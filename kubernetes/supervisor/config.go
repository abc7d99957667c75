package main

import (
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"time"
)

const configVariable = "AGENTJOBS_SUPERVISOR"

// config is what the worker puts into the pod. The token itself is never there.
type config struct {
	Certificate   string   `json:"certificate"`
	Key           string   `json:"key"`
	TokenSHA256   string   `json:"token_sha256"`
	Port          int      `json:"port"`
	OrphanSeconds float64  `json:"orphan_seconds"`
	Directories   []string `json:"directories"`

	certificate tls.Certificate
	tokenDigest []byte
}

func loadConfig(text string) (*config, error) {
	if text == "" {
		return nil, fmt.Errorf("%s is not set: only a worker starts this program", configVariable)
	}
	c := &config{}
	if err := json.Unmarshal([]byte(text), c); err != nil {
		return nil, fmt.Errorf("%s is not valid JSON: %w", configVariable, err)
	}
	certificate, err := tls.X509KeyPair([]byte(c.Certificate), []byte(c.Key))
	if err != nil {
		return nil, fmt.Errorf("%s has no usable certificate: %w", configVariable, err)
	}
	c.certificate = certificate
	c.tokenDigest, err = hex.DecodeString(c.TokenSHA256)
	if err != nil || len(c.tokenDigest) != 32 {
		return nil, fmt.Errorf("token_sha256 of %s is not a SHA-256 digest", configVariable)
	}
	if c.Port < 1 || c.Port > 65535 {
		return nil, fmt.Errorf("port of %s is not a port number", configVariable)
	}
	if c.OrphanSeconds <= 0 {
		return nil, fmt.Errorf("orphan_seconds of %s is not positive", configVariable)
	}
	return c, nil
}

func takeConfig() (*config, error) {
	text := os.Getenv(configVariable)
	os.Unsetenv(configVariable)
	return loadConfig(text)
}

func (c *config) orphanTimeout() time.Duration {
	return time.Duration(c.OrphanSeconds * float64(time.Second))
}
