package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Sampling and packing are measured also in a work directory that has both already.
func TestPrepareMeasuresAgain(t *testing.T) {
	dir := t.TempDir()
	name, calls := filepath.Join(dir, "program"), filepath.Join(dir, "calls")
	script := "#!/bin/sh\necho \"$@\" >> '" + calls + "'\necho '{\"seconds\": 8}'\n"
	if err := os.WriteFile(name, []byte(script), 0o777); err != nil {
		t.Fatal(err)
	}
	h := &harness{program: program{binary: name}, dir: filepath.Join(dir, "work")}
	e := epochs{peers: &peers{harness: h}, setup: setups["computers"], graph: "computers", model: "gcn"}
	_, got, err := e.prepare(t.Context())
	if want := (row{{"presample_seconds", 2.0}, {"pack_seconds", 2.0}}); err != nil || !slices.Equal(got, want) {
		t.Fatalf("%+v, %v, want %+v: the seconds of four epochs", got, err, want)
	}
	b, err := os.ReadFile(calls)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		stage, flags, _ := strings.Cut(line, " ")
		if forced := strings.HasPrefix(flags, "--force "); forced != (stage != "import") {
			t.Errorf("%s %s", stage, flags)
		}
	}
}

// TestPeers: a peer's figures are those of its last line, and ours are over the fastest one's.
func TestPeers(t *testing.T) {
	dir := t.TempDir()
	for name, seconds := range map[string]string{"peer_train.py": "2, 4", "peer_graphbolt.py": "9, 8"} {
		first, second, _ := strings.Cut(seconds, ", ")
		line := `{"peak_rss_mib_training": 3, "runs": [{"epochs": [{"seconds": ` + first + `}, {"seconds": ` + second + `, "loss": 0.5}]}]}`
		if err := os.WriteFile(filepath.Join(dir, name), []byte("echo begins\necho '"+line+"'\n"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	e := epochs{peers: &peers{harness: &harness{out: &out, json: true, rounds: 1}, scripts: dir}}
	if e.peer("", "peer_train.py") != nil {
		t.Error("a peer without a Python is measured")
	}
	theirs := append(e.peer("sh", "peer_train.py"), e.peer("sh", "peer_graphbolt.py")...)
	all, err := e.measure(t.Context(), theirs...)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := all["peer_train.py"][0], (row{{"epoch_seconds", 4.0}, {"peak_rss_bytes", int64(3 << 20)}, {"last_loss", 0.5}}); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	all["ours"] = []row{{{"epoch_seconds", 1.0}}}
	if err := e.over(all, "ours", theirs, "epoch_seconds"); err != nil || !strings.Contains(out.String(), `"of_the_fastest_peer":4,"ratio":0.25`) {
		t.Errorf("%s, %v", out.String(), err)
	}
	if _, err := e.measure(t.Context(), e.peer("sh", "none.py")...); err == nil {
		t.Error("a script that is not there was measured")
	}
}

// TestPeersJob: a peer prints the stages of its job, with the figures of its training, in its last line.
func TestPeersJob(t *testing.T) {
	dir := t.TempDir()
	line := `{"stages": [{"stage": "load", "seconds": 2, "drive_read_bytes": 512}, {"stage": "train", "seconds": 3, "train_epoch": 0.5, "valid_epoch": 0.25}]}`
	if err := os.WriteFile(filepath.Join(dir, "peer.py"), []byte("echo begins\necho '"+line+"'\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	j := job{peers: &peers{harness: &harness{dir: dir}, scripts: dir}}
	got, err := j.peer(t.Context(), "sh", "pyg")
	if want := []jobStage{{Stage: "load", Seconds: 2, Read: 512}, {Stage: "train", Seconds: 3, Train: 0.5, Valid: 0.25}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
}
