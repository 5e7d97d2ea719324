package app

import (
	"io/fs"
	"maps"
	"os"
)

// Watcher watches a set of files, which symbolic links may lead to. A file counts as changed if its size,
// time or inode has, or if it appears or disappears. Polling takes microseconds, works on every file
// system, and nothing else that happens in a folder delays it. It is not safe for concurrent use.
type Watcher struct {
	reported map[string]fs.FileInfo // nil: the file does not exist
	polled   map[string]fs.FileInfo // by the poll before
}

// NewWatcher watches files. Changed compares them with how they are given; nil: the file does not exist.
func NewWatcher(files map[string]fs.FileInfo) *Watcher {
	return &Watcher{reported: maps.Clone(files), polled: map[string]fs.FileInfo{}}
}

// SetFiles replaces the set of files. A change of one that stays in the set is reported even if
// it came before.
func (w *Watcher) SetFiles(files map[string]fs.FileInfo) {
	files = maps.Clone(files)
	for path := range files {
		if before, known := w.reported[path]; known {
			files[path] = before
		}
	}
	w.reported = files
}

// Changed polls the files and returns those that have changed since they were last reported. A file
// counts once two polls in a row find it the same, so that a file that is being written is not read:
// call it at intervals.
func (w *Watcher) Changed() (changed []string) {
	for path, reported := range w.reported {
		now := stat(path)
		before, polled := w.polled[path]
		w.polled[path] = now
		if polled && same(now, before) && !same(now, reported) {
			w.reported[path] = now
			changed = append(changed, path)
		}
	}
	return changed
}

// Snapshot returns how files are now. A file that cannot be seen counts as one that does not exist.
func Snapshot(paths ...string) map[string]fs.FileInfo {
	files := make(map[string]fs.FileInfo, len(paths))
	for _, path := range paths {
		files[path] = stat(path)
	}
	return files
}

// stat follows symbolic links, as Kubernetes replaces those.
func stat(path string) fs.FileInfo {
	info, err := os.Stat(path)
	if err != nil {
		return nil
	}
	return info
}

// same compares without reading: a replaced file has another inode, whatever its size and time.
func same(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}
