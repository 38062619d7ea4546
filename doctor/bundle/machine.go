package bundle

import (
	"os"
	"path/filepath"
	"strings"

	"diskgnn/internal/program"
)

// kernelFiles are the files with limits and memory of the machine and the process.
var kernelFiles = []string{
	"proc/meminfo", "proc/self/limits", "proc/sys/kernel/io_uring_disabled", "proc/driver/nvidia/version",
	"sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory.high", "sys/fs/cgroup/cpu.max", "sys/fs/cgroup/pids.max",
}

// driveFiles are the properties of a drive below its directory in sys/block. Serial numbers are not among
// them.
var driveFiles = []string{"size", "device/model", "queue/rotational", "queue/scheduler", "queue/logical_block_size", "queue/nr_requests"}

// machineFacts are the facts of the machine.
type machineFacts struct {
	Host   program.Host                 `json:"host"` // without its name
	Kernel map[string]string            `json:"kernel"`
	Drives map[string]map[string]string `json:"drives"`
}

// machine reads the kernel's files below a root. Files that cannot be read are left out.
func machine(root string) machineFacts {
	if root == "" {
		root = "/"
	}
	m := machineFacts{Host: program.ThisHost(), Kernel: make(map[string]string), Drives: make(map[string]map[string]string)}
	m.Host.Name = ""
	read := func(to map[string]string, name, path string) {
		if b, err := os.ReadFile(path); err == nil {
			to[name] = strings.TrimSpace(string(b[:min(len(b), 8<<10)]))
		}
	}
	for _, name := range kernelFiles {
		read(m.Kernel, name, filepath.Join(root, name))
	}
	blocks, _ := filepath.Glob(filepath.Join(root, "sys/block/*"))
	for _, dir := range blocks[:min(len(blocks), 64)] {
		drive := make(map[string]string)
		for _, name := range driveFiles {
			read(drive, name, filepath.Join(dir, name))
		}
		m.Drives[filepath.Base(dir)] = drive
	}
	return m
}
