package upstream

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// fileCheck is how often a file is looked at for a change.
const fileCheck = time.Second

// secretBytes bounds what is read of a file that holds one secret.
const secretBytes = 64 << 10

// stamp tells two versions of a file apart without reading it.
type stamp struct {
	modified time.Time
	size     int64
}

// stampOf gives the version of a file.
func stampOf(path string) (stamp, error) {
	info, err := os.Stat(path)
	if err != nil {
		return stamp{}, err
	}
	return stamp{info.ModTime(), info.Size()}, nil
}

// secretFile is a secret in a file, read again when the file changes. It is
// safe for concurrent use.
type secretFile struct {
	path string
	now  func() time.Time

	mu      sync.Mutex
	value   string
	version stamp
	checked time.Time
}

// get gives the secret. While the file cannot be read the last one stays good.
func (s *secretFile) get() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if s.value != "" && now.Sub(s.checked) < fileCheck {
		return s.value, nil
	}
	s.checked = now
	value, version, err := s.read()
	switch {
	case err == nil:
		s.value, s.version = value, version
	case s.value == "":
		return "", err
	}
	return s.value, nil
}

// read gives the secret and the version it was read from. The version is
// taken first: a change in between is seen the next time.
func (s *secretFile) read() (string, stamp, error) {
	version, err := stampOf(s.path)
	if err != nil {
		return "", stamp{}, err
	}
	if s.value != "" && version == s.version {
		return s.value, version, nil
	}
	file, err := os.Open(s.path)
	if err != nil {
		return "", stamp{}, err
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, secretBytes+1))
	value := strings.TrimSpace(string(b))
	switch {
	case err != nil:
		return "", stamp{}, err
	case len(b) > secretBytes:
		return "", stamp{}, fmt.Errorf("%s: more than %d bytes", s.path, secretBytes)
	case value == "":
		return "", stamp{}, fmt.Errorf("%s: empty", s.path)
	case strings.ContainsAny(value, "\r\n\x00"):
		return "", stamp{}, errors.New(s.path + ": more than one line")
	}
	return value, version, nil
}
