package report

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/procfs"
)

// Machine says what a run was made on, and nothing that tells two machines of a
// kind apart.
type Machine struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Memory int64  `json:"memory_bytes"`
	Kernel string `json:"kernel"`
	Go     string `json:"go"`
	Date   string `json:"date"`
}

// ThisMachine reads /proc; what it does not find is "unknown" or 0.
func ThisMachine(now time.Time) Machine {
	m := Machine{CPU: "unknown", Cores: runtime.NumCPU(), Kernel: "unknown", Go: runtime.Version(), Date: now.UTC().Format(time.DateOnly)}
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		// The numbers only: what follows them is the builder's name.
		m.Kernel, _, _ = strings.Cut(strings.TrimSpace(string(release)), "-")
	}
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return m
	}
	if cpus, err := proc.CPUInfo(); err == nil && len(cpus) > 0 && cpus[0].ModelName != "" {
		m.CPU = cpus[0].ModelName
	}
	if memory, err := proc.Meminfo(); err == nil && memory.MemTotalBytes != nil {
		m.Memory = int64(*memory.MemTotalBytes)
	}
	return m
}

// String is one line for people.
func (m Machine) String() string {
	return fmt.Sprintf("%s, %d cores, %.0f GiB, Linux %s, %s, %s", m.CPU, m.Cores, float64(m.Memory)/(1<<30), m.Kernel, m.Go, m.Date)
}
