// Package doctor reports the capabilities of a machine for training: one finding for each facility
// that a run may use, with the reason if it is missing and the one change that helps.
//
// The findings do not influence runs: every stage probes for itself, with the same probes.
package doctor

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"diskgnn/device/cuda"
	"diskgnn/doctor/bundle"
	"diskgnn/iostack/cufile"
)

// States of a finding.
const (
	Yes     = "yes"     // it can be used
	Limited = "limited" // it can be used, and does less than it could
	No      = "no"      // it cannot be used
	Unknown = "unknown" // it could not be determined
)

// Finding is the state of one facility.
type Finding struct {
	Name   string `json:"name"`
	State  string `json:"state"`
	Found  string `json:"found"`            // one line
	Change string `json:"change,omitempty"` // the one change that helps; empty if the state is yes
}

// Report is the findings of a machine.
type Report struct {
	Directory string    `json:"directory"` // where direct I/O was tried
	Findings  []Finding `json:"findings"`

	Bundle *bundle.Bundle `json:"bundle,omitempty"` // that was written of it; nil: none was asked for
}

// Machine is the source of findings: files of the kernel, and probes of the facilities that runs use.
// Here returns the real one; tests make others.
type Machine struct {
	Root string // directory with proc, sys and dev
	Arch string // of the processor, as Go calls it

	SIMD   func() (kinds []string, used string) // of the kernels, best last
	Memory func() (budget int64, of string)     // see budget.Default
	Uring  func() error
	Direct func(directory string) (direct bool, reason string, err error)
	Device func(directory string) (major, minor uint32, err error) // that holds a directory
	GPUs   func() ([]cuda.Info, error)
	Tagged bool // the program was built with the tag gpu
	CUFile func(ctx context.Context, directory string) cufile.Verdict
	// BLAS returns the name of the library of matrix products and, if it is a slow one, the reason.
	BLAS     func() (name, reason string)
	OpenBLAS func() (name string, err error)
	Getenv   func(string) string
}

// Examine reports the capabilities of the machine for data in a directory. It makes a small file
// there and removes it. If there is a GPU, it starts a child process that tries cuFile.
func (m *Machine) Examine(ctx context.Context, directory string) Report {
	r := Report{Directory: directory}
	for _, find := range []func(context.Context, string) Finding{
		m.cpu, m.blas, m.openBLAS, m.memory, m.lockedMemory, m.hugePages,
		m.uring, m.direct, m.drive,
		m.gpu, m.peers, m.cuFile,
		m.controllers, m.iommu, m.modules,
	} {
		r.Findings = append(r.Findings, find(ctx, directory))
	}
	return r
}

// read returns the content of a kernel file without white space around it.
func (m *Machine) read(name string) (text string, ok bool) {
	b, err := os.ReadFile(filepath.Join(m.Root, name))
	return strings.TrimSpace(string(b)), err == nil
}

func (m *Machine) exists(name string) bool {
	_, err := os.Lstat(filepath.Join(m.Root, name))
	return err == nil
}

// match returns the names in a directory that fit a pattern, sorted.
func (m *Machine) match(directory, pattern string) []string {
	paths, _ := filepath.Glob(filepath.Join(m.Root, directory, pattern))
	for i, p := range paths {
		paths[i] = filepath.Base(p)
	}
	return paths
}

// field returns the text after a field's name in a file, up to the end of the line.
func (m *Machine) field(name, field string) (text string, ok bool) {
	b, _ := m.read(name)
	for line := range strings.Lines(b) {
		if rest, found := strings.CutPrefix(line, field); found {
			return strings.TrimSpace(rest), true
		}
	}
	return "", false
}
