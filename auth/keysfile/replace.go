package keysfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// newFileMode is the mode of a keys file that a tool makes.
const newFileMode fs.FileMode = 0o600

// resolve follows symbolic links, so that the file is replaced and not the
// link. A file that does not exist resolves to itself.
func resolve(path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if err == nil {
		return real, nil
	}
	if _, lerr := os.Lstat(path); errors.Is(lerr, fs.ErrNotExist) {
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

// writeWhole fills and closes the file that will take the place of path.
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

// likeOld gives the new file the mode and the owner of the old one.
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
