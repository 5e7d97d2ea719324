//go:build !unix

package keysfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// lockRetry is how often a lock that somebody holds is tried again.
const lockRetry = 20 * time.Millisecond

// lockFolder excludes other writers by a lock file. A program that was killed
// leaves it behind; the error says which file to remove.
func lockFolder(ctx context.Context, dir string) (unlock func(), err error) {
	name := filepath.Join(dir, ".inquiry-gateway-keys.lock")
	for {
		f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL, newFileMode)
		if err == nil {
			return func() { _ = errors.Join(f.Close(), os.Remove(name)) }, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("another program is changing the keys (if not, remove %s): %w", name, ctx.Err())
		case <-time.After(lockRetry):
		}
	}
}

// keepOwner has nothing to do where files inherit their folder's rights.
func keepOwner(*os.File, fs.FileInfo) error { return nil }

// syncFolder has nothing to do where folders cannot be synced.
func syncFolder(string) error { return nil }
