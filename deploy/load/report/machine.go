package report

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Machine says what a run was made on, and nothing that tells machines of a
// kind apart.
type Machine struct {
	CPU     string `json:"cpu"`
	Cores   int    `json:"cores"`
	Memory  int64  `json:"memory_bytes"`
	Kernel  string `json:"kernel"`
	Go      string `json:"go"`
	Date    string `json:"date"`
	Version string `json:"version,omitempty"` // of the gateway
}

// ThisMachine reads /proc; what it cannot find is "unknown".
func ThisMachine(now time.Time) Machine {
	cpuinfo, _ := os.ReadFile("/proc/cpuinfo")
	meminfo, _ := os.ReadFile("/proc/meminfo")
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return Machine{
		CPU: cpuModel(string(cpuinfo)), Cores: runtime.NumCPU(), Memory: memory(string(meminfo)),
		Kernel: kernelRelease(string(kernel)), Go: runtime.Version(), Date: now.UTC().Format(time.DateOnly),
	}
}

func cpuModel(cpuinfo string) string {
	for line := range strings.Lines(cpuinfo) {
		key, value, ok := strings.Cut(line, ":")
		if ok && strings.TrimSpace(key) == "model name" && strings.TrimSpace(value) != "" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

func memory(meminfo string) int64 {
	for line := range strings.Lines(meminfo) {
		if rest, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			kib, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kib << 10
		}
	}
	return 0
}

// kernelRelease keeps the numbers: what follows them is the builder's name.
func kernelRelease(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "-")
	if s == "" {
		return "unknown"
	}
	return s
}

// String is one line for people.
func (m Machine) String() string {
	return fmt.Sprintf("%s, %d cores, %.0f GiB, Linux %s, %s", m.CPU, m.Cores, float64(m.Memory)/(1<<30), m.Kernel, m.Go)
}
