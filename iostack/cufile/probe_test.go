package cufile

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"diskgnn/device"
	"diskgnn/device/cuda/cudatest"
	"diskgnn/internal/fault"
	"diskgnn/iostack"
)

func TestProbe(t *testing.T) { probes(t) }

// probes walks what a child process may come back with.
func probes(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "content.bin")
	if err := os.WriteFile(file, []byte(strings.Repeat("content", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		fault, path string
		mode        Mode
		reason      string
	}{
		{"", "", Direct, ""},
		{"", dir, Direct, ""},
		{"", file, Direct, ""},
		{"strict:open:5001", "", Compatibility, "cuFileDriverOpen: CU_FILE_DRIVER_NOT_INITIALIZED (5001): nvidia-fs is not loaded"},
		{"strict:register:5008", file, Compatibility, "the file system or the drive is not supported"},
		{"strict:read:5008", file, Compatibility, "cuFileRead: CU_FILE_IO_NOT_SUPPORTED"},
		{"fail:open:5010", file, Unavailable, "cuFileDriverOpen: CU_FILE_NVFS_DRIVER_ERROR (5010): nvidia-fs is not loaded, or failed"},
		{"fail:register:5018", file, Unavailable, "cuFileHandleRegister: CU_FILE_INVALID_FILE_TYPE (5018)"},
		{"flip:read", file, Unavailable, "not the file's"},
		{"errno:read:5", file, Unavailable, "input/output error"},
		{"missing", file, Unavailable, "file does not exist"},
		{"abort:open", file, Unavailable, "the process that tried it died: "},
		{"abort:read", file, Unavailable, "the process that tried it died: "},
		{"", file + ".missing", Unavailable, "no such file"},
	} {
		t.Run(c.fault+" "+filepath.Base(c.path), func(t *testing.T) {
			t.Setenv("FAKE_CUFILE", c.fault)
			v := Probe(context.Background(), c.path)
			if v.Mode != c.mode || !strings.Contains(v.Reason, c.reason) || (v.Reason == "") != (c.reason == "") || strings.Contains(v.Reason, "\n") {
				t.Errorf("%s; want %s: %s", v, c.mode, c.reason)
			}
			if (v.Library == "") != (v.Mode == Unavailable) {
				t.Errorf("%s with library %q", v, v.Library)
			}
		})
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}

	t.Run("hang", func(t *testing.T) {
		defer func(before time.Duration) { patience = before }(patience)
		patience = 300 * time.Millisecond
		t.Setenv("FAKE_CUFILE", "hang:open")
		if v := Probe(context.Background(), file); v.Mode != Unavailable || !strings.Contains(v.Reason, "hung: it was killed after 300ms") {
			t.Error(v)
		}
	})
	t.Run("cancel", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if v := Probe(ctx, file); v.Mode != Unavailable || !strings.Contains(v.Reason, "context canceled") {
			t.Error(v)
		}
	})
}

// TestProbeAsksNoStranger: a program whose main does not call Child would run again.
func TestProbeAsksNoStranger(t *testing.T) {
	served.Store(false)
	defer served.Store(true)
	if v := Probe(context.Background(), ""); v.Mode != Unavailable || !strings.Contains(v.Reason, "cannot run the process") {
		t.Error(v)
	}
}

func TestOpen(t *testing.T) {
	defer func(before func() Verdict) { tried = before }(tried)
	tried = func() Verdict { return unavailable("no\nluck") }
	if _, _, err := Open(iostack.Options{}); !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), "unavailable: no; luck") {
		t.Errorf("unavailable: %v", err)
	}
	tried = func() Verdict { return Verdict{Mode: Compatibility, Reason: "why"} }
	if _, _, err := Open(iostack.Options{Workers: -1}); !errors.Is(err, fault.ErrUsage) {
		t.Errorf("bad options: %v", err)
	}
	s, v, err := Open(iostack.Options{Workers: 2})
	if err != nil || v.String() != "compatibility mode: why" {
		t.Fatal(v, err)
	}
	if err := s.Close(); err != nil || s.Name() != Name || !s.Caps().Device {
		t.Error(err, s.Name(), s.Caps())
	}
}

// TestOpenOnDevice: the stack reads into the device that its user opened, and leaves it open;
// why that one is not to be had is the stack's reason.
func TestOpenOnDevice(t *testing.T) {
	defer func(before func() Verdict) { tried = before }(tried)
	tried = func() Verdict { return Verdict{Mode: Direct} }
	closed := errors.New("closed")
	d := cudatest.Open(t)
	for _, o := range []iostack.Options{{Workers: 2}, {Workers: -1}} {
		o.Device = func() (device.GPU, error) { return d, nil }
		s, _, err := Open(o)
		if err == nil {
			if s.device != d {
				t.Error("it opened another device")
			}
			err = s.Close()
		}
		if want := o.Workers < 0; (err != nil) != want {
			t.Errorf("%d workers: %v", o.Workers, err)
		}
		arena, err := d.NewArena(1) // a closed device has none
		if err != nil {
			t.Fatal(err)
		}
		arena.Free()
	}
	if _, _, err := Open(iostack.Options{Device: func() (device.GPU, error) { return nil, closed }}); !errors.Is(err, closed) {
		t.Errorf("no device: %v", err)
	}
}
