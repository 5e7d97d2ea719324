package keysfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// newFileMode is the mode of a keys file that a tool makes.
const newFileMode fs.FileMode = 0o600

// resolve follows symbolic links, so that the file is replaced and not the
// link. A file that does not exist resolves to itself, also when another writer
// makes it between the two looks at it; a link to nowhere is an error.
func resolve(path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if err == nil {
		return real, nil
	}
	info, lerr := os.Lstat(path)
	if errors.Is(lerr, fs.ErrNotExist) || lerr == nil && info.Mode().IsRegular() {
		return filepath.Abs(path)
	}
	return "", fmt.Errorf("keys file: %w", err)
}

// replaceFile puts a new content in the place of a file in one step: a reader
// or a crash sees the old content or the new one, whole. Mode and owner are
// kept; a new file is for its owner only.
func replaceFile(path string, data []byte) error {
	dir := filepath.Dir(path)
	tmp, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	err = writeWhole(tmp, path, data)
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return syncFolder(dir)
}

// writeWhole fills and closes the file that will take the place of path. It is on the disk
// before it has that name: after a power cut a name without its content would be an empty
// keys file.
func writeWhole(tmp *os.File, path string, data []byte) error {
	err := likeOld(tmp, path)
	if err == nil {
		_, err = tmp.Write(data)
	}
	if err == nil {
		err = tmp.Sync()
	}
	return errors.Join(err, tmp.Close())
}

// likeOld gives the new file the mode and the owner of the old one, before anything is
// written to it: at no moment may others read it who could not read the old one.
func likeOld(tmp *os.File, path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return tmp.Chmod(newFileMode)
	}
	if err != nil {
		return err
	}
	if err := keepOwner(tmp, info); err != nil {
		return err
	}
	return tmp.Chmod(info.Mode().Perm())
}

// lockRetry is how often a lock that somebody holds is tried again.
const lockRetry = 20 * time.Millisecond

// lockFolder excludes other writers of the files in a folder until unlock is
// called or the process ends. The folder is locked because the file itself is
// replaced, and because no lock file is left behind this way.
func lockFolder(ctx context.Context, dir string) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", dir, err), f.Close())
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("another program is changing the keys in %s: %w", dir, ctx.Err()), f.Close())
		case <-time.After(lockRetry):
		}
	}
}

// keepOwner makes a file belong to whom another one belongs to. Failing is
// better than leaving the gateway with a file that it may not read.
func keepOwner(f *os.File, like fs.FileInfo) error {
	want, ok := like.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if have, ok := info.Sys().(*syscall.Stat_t); ok && have.Uid == want.Uid && have.Gid == want.Gid {
		return nil
	}
	if err := f.Chown(int(want.Uid), int(want.Gid)); err != nil {
		return fmt.Errorf("cannot keep the owner of the keys file, run this as its owner: %w", err)
	}
	return nil
}

// syncFolder makes a rename in the folder last through a power cut.
func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
