package app

import (
	"io/fs"
	"os"
	"time"
)

// maxWait is how long a file that changes at each poll is waited for.
const maxWait = 500 * time.Millisecond

// Watcher watches a set of files, which symbolic links may lead to. A file that
// was only touched counts as changed, as does one that disappears or comes into
// being. A poll costs some microseconds, works on every file system, and nothing
// else that happens in a folder delays it. It is not safe for concurrent use.
type Watcher struct {
	told  map[string]fs.FileInfo // as last told; nil: not there
	last  map[string]fs.FileInfo // as of the poll before, while something has changed
	since time.Time              // of that change
}

// NewWatcher watches files. Changed compares them with how they are given; nil: not there.
func NewWatcher(files map[string]fs.FileInfo) *Watcher { return &Watcher{told: files} }

// SetFiles replaces the set of files. A change of one that stays in the set is told even if
// it came before.
func (w *Watcher) SetFiles(files map[string]fs.FileInfo) {
	next := make(map[string]fs.FileInfo, len(files))
	for path, now := range files {
		if before, known := w.told[path]; known {
			now = before
		}
		next[path] = now
	}
	w.told, w.last = next, nil
}

// Changed polls the files and returns those that have changed. Call it at intervals: it
// returns a file when two polls in a row find it the same, so that it is read whole, or half a
// second after the change was first seen.
func (w *Watcher) Changed(at time.Time) (changed []string) {
	now := make(map[string]fs.FileInfo, len(w.told))
	settled := w.last != nil
	for path, told := range w.told {
		now[path] = stat(path)
		if !same(now[path], told) {
			changed = append(changed, path)
		}
		settled = settled && same(now[path], w.last[path])
	}
	switch {
	case len(changed) == 0:
		w.last = nil
		return nil
	case w.last == nil:
		w.since = at
	}
	if w.last = now; !settled && at.Sub(w.since) < maxWait {
		return nil
	}
	w.told, w.last = now, nil
	return changed
}

// Look says how files are now. A file that cannot be seen counts as one that is not there.
func Look(paths ...string) map[string]fs.FileInfo {
	files := make(map[string]fs.FileInfo, len(paths))
	for _, path := range paths {
		files[path] = stat(path)
	}
	return files
}

// stat follows symbolic links, as Kubernetes puts them in place of its files.
func stat(path string) fs.FileInfo {
	info, err := os.Stat(path)
	if err != nil {
		return nil
	}
	return info
}

// same compares without reading: another file in the same place has another
// inode, whatever its size and time.
func same(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}
