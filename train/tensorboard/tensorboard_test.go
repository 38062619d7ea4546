package tensorboard

import (
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"diskgnn/internal/vfs"
	"diskgnn/train/rundir"
	"diskgnn/train/score"
)

var begun = time.Unix(1_600_000_000, 500_000_000)

func epochs() []rundir.Epoch {
	u := score.Undefined
	return []rundir.Epoch{
		{Epoch: 0, Seconds: 2, ValidSeconds: 0.5, LR: 0.25, Loss: 1.5, TrainAccuracy: 0.5, ValidAccuracy: u, BytesRead: 1 << 40, UsefulBytes: 1, ReadRate: u},
		{Epoch: 1, Seconds: 1, LR: 0.125, Loss: 0.75, TrainAccuracy: 0.75, ValidAccuracy: 0.5, ReadSeconds: 0.25, ComputeSeconds: 0.5, ReadRate: 1e9},
	}
}

// The first record by hand: the version at 1,600,000,000.5 seconds.
func TestFirstRecord(t *testing.T) {
	event := append([]byte{0x09, 0x00, 0x00, 0x20, 0x00, 0x84, 0xd7, 0xd7, 0x41, 0x1a, 13}, "brain.Event:2"...)
	if got := math.Float64frombits(binary.LittleEndian.Uint64(event[1:])); got != 1_600_000_000.5 {
		t.Fatalf("the time by hand is %v", got)
	}
	file := encode(begun, nil)
	if n := binary.LittleEndian.Uint64(file); n != uint64(len(event)) || len(file) != 16+len(event) {
		t.Fatalf("a record of %d bytes in %d", n, len(file))
	}
	if diff := cmp.Diff(event, file[12:12+len(event)]); diff != "" {
		t.Error(diff)
	}
	unmask := func(b []byte) uint32 {
		m := binary.LittleEndian.Uint32(b) - 0xa282ead8
		return m<<15 | m>>17
	}
	castagnoli := crc32.MakeTable(crc32.Castagnoli)
	if unmask(file[8:]) != crc32.Checksum(file[:8], castagnoli) || unmask(file[12+len(event):]) != crc32.Checksum(event, castagnoli) {
		t.Error("wrong checksums")
	}
}

// An epoch's scalars by hand, of which those that are undefined are missing.
func TestEpoch(t *testing.T) {
	all := encode(begun, epochs())
	if got := encode(begun, epochs()[:1]); string(got) != string(all[:len(got)]) {
		t.Error("more epochs change what is written of the first")
	}
	second := all[len(encode(begun, epochs()[:1]))+12:]
	// wall time 1600000004 = begun + 2 + 0.5 + 1, step 1, then the first scalar.
	want := append([]byte{0x09, 0x00, 0x00, 0x00, 0x01, 0x84, 0xd7, 0xd7, 0x41, 0x10, 1, 0x2a}, second[12], second[13])
	want = append(want, 0x0a, 11, 0x0a, 4, 'l', 'o', 's', 's', 0x15, 0x00, 0x00, 0x40, 0x3f) // 0.75
	if diff := cmp.Diff(want, second[:len(want)]); diff != "" {
		t.Error(diff)
	}
}

// TestReadBack reads the file with PyPI's tensorboard, where a Python has it:
// DISKGNN_TENSORBOARD names one, else python3 is looked at.
func TestReadBack(t *testing.T) {
	python := os.Getenv("DISKGNN_TENSORBOARD")
	if python == "" {
		python = "python3"
	}
	if err := exec.Command(python, "-c", "import tensorboard").Run(); err != nil {
		t.Skipf("no Python with tensorboard: %v", err)
	}
	dir := filepath.Join(t.TempDir(), "a", "board")
	for range 2 { // the second replaces the first
		if err := Write(vfs.OS, dir, begun, epochs()); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command(python, "-c", `
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
a = EventAccumulator(sys.argv[1])
a.Reload()
print(json.dumps({t: [[e.wall_time, e.step, e.value] for e in a.Scalars(t)] for t in a.Tags()["scalars"]}))`, dir).Output()
	if err != nil {
		t.Fatal(err)
	}
	var got map[string][][3]float64
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	const first, second = 1_600_000_003, 1_600_000_004
	want := map[string][][3]float64{
		"loss":                  {{first, 0, 1.5}, {second, 1, 0.75}},
		"accuracy/train":        {{first, 0, 0.5}, {second, 1, 0.75}},
		"accuracy/valid":        {{second, 1, 0.5}},
		"learning_rate":         {{first, 0, 0.25}, {second, 1, 0.125}},
		"epoch/seconds":         {{first, 0, 2}, {second, 1, 1}},
		"epoch/read_seconds":    {{first, 0, 0}, {second, 1, 0.25}},
		"epoch/compute_seconds": {{first, 0, 0}, {second, 1, 0.5}},
		"read/bytes":            {{first, 0, 1 << 40}, {second, 1, 0}},
		"read/useful_bytes":     {{first, 0, 1}, {second, 1, 0}},
		"read/bytes_per_second": {{second, 1, 1e9}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
