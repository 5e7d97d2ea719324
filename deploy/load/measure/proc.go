package measure

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of CPU times in /proc/PID/stat. Linux has shown 100 ticks a
// second to programs on every architecture Go runs on, whatever its own clock.
const tick = 10 * time.Millisecond

// Usage is what a process and its descendants have used so far.
type Usage struct {
	CPU  time.Duration // user and system time of all threads
	RSS  int64         // resident now, bytes; memory that processes share counts for each
	Peak int64         // highest resident so far, bytes
}

// Processes reads process trees from a /proc file system.
type Processes struct {
	Root string // empty: /proc
}

func (p Processes) path(parts ...string) string {
	root := p.Root
	if root == "" {
		root = "/proc"
	}
	return filepath.Join(append([]string{root}, parts...)...)
}

// Usage sums up the trees under the given processes. A process that is not
// there is an error; a descendant that ends meanwhile is left out.
func (p Processes) Usage(pids ...int) (Usage, error) {
	children, err := p.children()
	if err != nil {
		return Usage{}, err
	}
	var sum Usage
	for _, pid := range pids {
		if err := p.add(&sum, pid); err != nil {
			return Usage{}, err
		}
		for _, child := range descendants(children, pid) {
			_ = p.add(&sum, child) // ended meanwhile
		}
	}
	return sum, nil
}

func (p Processes) add(sum *Usage, pid int) error {
	stat, err := os.ReadFile(p.path(strconv.Itoa(pid), "stat"))
	if err != nil {
		return err
	}
	_, cpu, err := parseStat(stat)
	if err != nil {
		return err
	}
	status, err := os.ReadFile(p.path(strconv.Itoa(pid), "status"))
	if err != nil {
		return err
	}
	sum.CPU += cpu
	sum.RSS += statusBytes(status, "VmRSS")
	sum.Peak += statusBytes(status, "VmHWM")
	return nil
}

// children maps each process to those it started.
func (p Processes) children() (map[int][]int, error) {
	entries, err := os.ReadDir(p.path())
	if err != nil {
		return nil, err
	}
	of := make(map[int][]int)
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(p.path(e.Name(), "stat"))
		if err != nil {
			continue // ended meanwhile
		}
		if parent, _, err := parseStat(stat); err == nil {
			of[parent] = append(of[parent], pid)
		}
	}
	return of, nil
}

func descendants(children map[int][]int, pid int) []int {
	var all []int
	for _, child := range children[pid] {
		all = append(append(all, child), descendants(children, child)...)
	}
	return all
}

// parseStat reads the parent and the CPU time out of /proc/PID/stat. The name
// of the program stands in parentheses and may hold any character, so the
// fields are counted from the last closing one (proc(5)).
func parseStat(stat []byte) (parent int, cpu time.Duration, err error) {
	const ppid, utime, stime = 1, 11, 12 // after the name
	end := bytes.LastIndexByte(stat, ')')
	fields := strings.Fields(string(stat[end+1:]))
	if end < 0 || len(fields) <= stime {
		return 0, 0, fmt.Errorf("not the text of /proc/PID/stat: %.40q", stat)
	}
	parent, err = strconv.Atoi(fields[ppid])
	if err != nil {
		return 0, 0, fmt.Errorf("parent process: %w", err)
	}
	for _, i := range []int{utime, stime} {
		ticks, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("CPU time: %w", err)
		}
		cpu += time.Duration(ticks) * tick
	}
	return parent, cpu, nil
}

// statusBytes reads a size out of /proc/PID/status; 0 where there is none, as
// for a process that has just ended.
func statusBytes(status []byte, name string) int64 {
	for line := range strings.Lines(string(status)) {
		key, value, _ := strings.Cut(line, ":")
		if key != name {
			continue
		}
		kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		if err == nil {
			return kib << 10
		}
	}
	return 0
}
