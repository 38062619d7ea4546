package datasettest

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"sync"
	"time"

	"diskgnn/dataset"
	"diskgnn/internal/progress"
)

// Change is a change that other processes may make to a dataset's topology while it is mapped.
type Change struct {
	Name string
	File string // that the error must name
	do   func(name string, content []byte) error
}

// Changes returns those that no memory fault shows. Whoever has mapped the topology must end with
// an error of kind fault.ErrCorrupt.
func Changes() []Change {
	return []Change{
		{"cut inside the last page", dataset.IndicesFile, func(name string, b []byte) error { return os.Truncate(name, int64(len(b)-8)) }},
		{"cut and grown again", dataset.IndicesFile, func(name string, b []byte) error {
			if err := os.Truncate(name, int64(len(b)-8)); err != nil {
				return err
			}
			return os.Truncate(name, int64(len(b)))
		}},
		{"offsets cut inside the last page", dataset.IndptrFile, func(name string, b []byte) error { return os.Truncate(name, int64(len(b)-24)) }},
		{"ids out of range", dataset.IndicesFile, overwrite(func(b []byte) {
			for i := 3; i < len(b); i += 4 {
				b[i] |= 0x80
			}
		})},
		{"offsets out of range", dataset.IndptrFile, overwrite(func(b []byte) {
			for i := 16; i < len(b); i += 16 {
				binary.LittleEndian.PutUint64(b[i:], 1<<40)
			}
		})},
		{"negative offsets", dataset.IndptrFile, overwrite(func(b []byte) {
			for i := 15; i < len(b); i += 16 {
				b[i] |= 0x80
			}
		})},
		{"another file takes the name", dataset.IndicesFile, func(name string, b []byte) error {
			if err := os.WriteFile(name+".new", b, 0o666); err != nil {
				return err
			}
			return os.Rename(name+".new", name)
		}},
		{"removed", dataset.IndptrFile, func(name string, _ []byte) error { return os.Remove(name) }},
	}
}

// overwrite writes changed content in place, as one who has the file mapped sees it.
func overwrite(change func(b []byte)) func(string, []byte) error {
	return func(name string, b []byte) error {
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		c := append([]byte(nil), b...)
		change(c)
		_, err = f.WriteAt(c, 0)
		return err
	}
}

// Do changes the dataset in dir. undo puts the content back.
func (c *Change) Do(t TB, dir string) (undo func()) {
	t.Helper()
	name := filepath.Join(dir, c.File)
	content, err := os.ReadFile(name)
	if err == nil {
		err = c.do(name, content)
	}
	if err != nil {
		t.Fatalf("%s: %v", c.Name, err)
	}
	return func() {
		if err := os.WriteFile(name, content, 0o666); err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
		Age(t, dir)
	}
}

// Age makes the topology old: file systems note times in steps of milliseconds, in which a test
// makes a file and changes it.
func Age(t TB, dir string) {
	t.Helper()
	for _, name := range []string{dataset.IndptrFile, dataset.IndicesFile} {
		if err := os.Chtimes(filepath.Join(dir, name), time.Time{}, time.Unix(1e9, 0)); err != nil {
			t.Fatalf("%v", err)
		}
	}
}

// At returns a reporter that calls do once: when the task of that name first advances, or with
// ended when it is done.
func At(task string, ended bool, do func()) progress.Reporter {
	return &moment{progress.Discard, task, ended, sync.OnceFunc(do)}
}

type moment struct {
	progress.Reporter
	task  string
	ended bool
	do    func()
}

func (m *moment) Task(name string, total int64, unit progress.Unit) progress.Task {
	if name != m.task {
		return m.Reporter.Task(name, total, unit)
	}
	return m
}

func (m *moment) Add(int64) {
	if !m.ended {
		m.do()
	}
}

func (m *moment) Done() {
	if m.ended {
		m.do()
	}
}
