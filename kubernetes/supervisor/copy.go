package main

import (
	"io"
	"os"
)

// prepareContainer is what the init container of a pod does.
func prepareContainer(path string) error {
	if err := copyProgram(path); err != nil {
		return err
	}
	if text := os.Getenv(layersVariable); text != "" {
		clearUmask()
		return unpackLayers(text, cacheDirectory, unpackedRecord(path))
	}
	return nil
}

// copyProgram puts this program where the main container of the pod finds it.
func copyProgram(path string) error {
	source, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer source.Close()
	temporary := path + ".new"
	target, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(target, source); err != nil {
		target.Close()
		return err
	}
	if err := target.Close(); err != nil {
		return err
	}
	if err := os.Chmod(temporary, 0o755); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}
