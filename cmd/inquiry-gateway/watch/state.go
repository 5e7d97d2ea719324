package watch

import (
	"crypto/sha256"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// maxBytes bounds what is read of one file to see whether it changed; past it
// the size and the beginning decide.
const maxBytes = 64 << 20

// state is what a file's content comes down to. The zero value is a file that
// cannot be read.
type state struct {
	readable bool
	size     int64
	sum      [sha256.Size]byte
}

func stateOf(path string) state {
	// Stat first: opening a named pipe would wait for its writer.
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return state{}
	}
	f, err := os.Open(path)
	if err != nil {
		return state{}
	}
	defer f.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, io.LimitReader(f, maxBytes)); err != nil {
		return state{}
	}
	s := state{readable: true, size: info.Size()}
	hash.Sum(s.sum[:0])
	return s
}

func look(paths []string) map[string]state {
	files := make(map[string]state, len(paths))
	for _, path := range paths {
		files[path] = stateOf(path)
	}
	return files
}

// foldersOf lists the folders in which a change can change a file: its own and,
// behind symbolic links, that of the file they lead to.
func foldersOf(files map[string]state) []string {
	folders := map[string]bool{}
	for path := range files {
		folders[filepath.Dir(path)] = true
		if target, err := filepath.EvalSymlinks(path); err == nil {
			folders[filepath.Dir(target)] = true
		}
	}
	return slices.Sorted(maps.Keys(folders))
}
