package main

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"diskgnn/internal/driverate"
)

// TestSubcommands runs each in its smallest form.
func TestSubcommands(t *testing.T) {
	dir := t.TempDir()
	bin := filepath.Join(dir, "diskgnn")
	if out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", bin, "../cmd/diskgnn").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	whole, after, during := effort, steadyAfter, steadyFor
	defer func() { effort, steadyAfter, steadyFor = whole, after, during }()
	effort, steadyAfter, steadyFor = driverate.Effort{For: time.Millisecond}, 0, 0.001
	graph, samples, pack := filepath.Join(dir, "graph"), filepath.Join(dir, "samples"), filepath.Join(dir, "pack")
	trained, edges := filepath.Join(dir, "run"), filepath.Join(dir, "edges.csv")
	if err := os.WriteFile(edges, []byte("src,dst\n0,1\n8,3\n2,4\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	p := program{binary: bin}
	if err := p.do(t.Context(),
		[]string{"generate", "--out", graph, "--nodes", "1000", "--dim", "8", "--classes", "3", "--train-ratio", "0.2"},
		[]string{"presample", "--dataset", graph, "--out", samples, "--fanout", "2,2", "--batch-size", "50", "--epochs", "2"},
		[]string{"pack", "--dataset", graph, "--samples", samples, "--out", pack, "--cache", "10%", "--bands", "50,10"},
		[]string{"train", "--pack", pack, "--out", trained, "--epochs", "2", "--hidden", "4", "--trace"},
	); err != nil {
		t.Fatal(err)
	}
	const small = " -nodes 1000 -dim 8 -seeds 200"
	ran := map[string]bool{}
	for _, c := range []struct{ args, keys string }{
		{"turns -rounds 1 -before BIN -each-before --quiet -watch -swap -drop GRAPH -drive GRAPH/features.bin -same losses,weights -close first_loss -each=--threads\\x201 -each --quiet -- train --pack PACK --epochs 2 --hidden 4 --layer-order aggregate", "side,over,epoch_seconds"},
		{"accuracy -dataset GRAPH -seeds 1 -variants uniform,labor-2,int8 -plan -min -presample --fanout\\x202,2 -train --epochs\\x202\\x20--hidden\\x204", "exact,exact_difference_points,epoch_bytes_min_10,disk_bytes_5,sampled"},
		{"importing -nodes 900 -edges 3000 -dim 4", "import_seconds,share,inflated_bytes"},
		{"tables -rounds 1 -nodes 9 EDGES", "edges_per_second,reading_per_second"},
		{"loader -pack PACK -rounds 1", "fraction_of_sequential,decode_share_of_reading"},
		{"packing -dataset GRAPH -samples SAMPLES -rounds 1 -write-bytes 65536 -- --cache 10%", "fraction_of_bound"},
		{"topology -fanout 2,2 GRAPH", "hits,requests_per_batch"},
		{"segments -lengths 2 -cache 0 -dim 8 SAMPLES", "bytes_over_used,runs_per_batch"},
		{"graphs PACK SAMPLES", "stored_bytes,floor_bytes,sage_bytes,gcn_bytes,all_ms"},
		{"sgemm -rounds 1 -time 1ms -shape nn8x8x8 -kinds gonum", "gonum"},
		{"step BLOCKS -make SAMPLES -dataset GRAPH", ""},
		{"step BLOCKS -steps 1 -warmup 0 -hidden 4", "median_ms,step_per_sgemm,prepare_ms"},
		{"validation -pack PACK -hold 1GiB", "bytes over,seconds over,requests cold"},
		{"boundary RUN/trace.json", "median ms,longest ms"},
		{"exact -dataset GRAPH -run RUN -rounds 1 -memory ,256MiB -before " + bin, "bytes_over_plan,peak_anon_bytes"},
		{"stream -pack PACK -engine cpu -rounds 1 -epochs 2 -serial -- --hidden 4", "serial_over_streamed,ratio"},
		{"simulated -rounds 1 -stores rows,packed" + small, "measured_seconds,simulated_seconds,error"},
		{"job -rounds 1 -nodes 600 -dim 4 -train-ratio 0.1 -fanout 2,2 -hidden 4 -epochs 2 -cache 100% -exact", "drive_written_bytes,valid_epoch,test_accuracy"},
		{"gids -sensitivities=false", "aggregation_seconds_simulated"},
		{"hyperion -suggest=false -sensitivities=false", "published,simulated,difference_percent,tpc_ratio"},
		{"beacon -batches 1", "authors"},
	} {
		words := strings.Fields(strings.NewReplacer("BIN", bin, "GRAPH", graph, "SAMPLES", samples, "PACK", pack, "BLOCKS", filepath.Join(dir, "blocks"), "EDGES", edges, "RUN", trained).Replace(c.args))
		for i := range words {
			words[i] = strings.ReplaceAll(words[i], `\x20`, " ")
		}
		began := time.Now()
		args := append([]string{words[0], "-json", "-bin", bin, "-io", "pread"}, words[1:]...)
		var out bytes.Buffer
		if err := run(t.Context(), args, &out); err != nil {
			t.Errorf("%s: %v", c.args, err)
			continue
		}
		ran[words[0]] = true
		t.Logf("%s: %v", words[0], time.Since(began))
		var keys []string
		for line := range bytes.Lines(out.Bytes()) {
			var r map[string]any
			if err := json.Unmarshal(line, &r); err != nil {
				t.Errorf("%s: %v: %s", c.args, err, line)
			}
			keys = slices.AppendSeq(keys, maps.Keys(r))
		}
		for key := range strings.SplitSeq(c.keys, ",") {
			if key != "" && !slices.Contains(keys, key) {
				t.Errorf("%s: no %s in %s", c.args, key, out.Bytes())
			}
		}
	}
	for _, c := range commands() {
		if !ran[c.name] && c.name != "sample" && c.name != "epoch" { // which need graphs and peers
			t.Errorf("%s was not run", c.name)
		}
	}
}

// A name that is no subcommand's is repeated in the error.
func TestUnknownSubcommand(t *testing.T) {
	if err := run(t.Context(), []string{"nosuch"}, io.Discard); err == nil || !strings.Contains(err.Error(), `"nosuch"`) {
		t.Errorf("%v", err)
	}
}

// TestDocumented: README.md has a row for every subcommand, and pages name those that there are.
func TestDocumented(t *testing.T) {
	pages := []string{"README.md", "../README.md", "../CONTRIBUTING.md", "../examples/README.md"}
	for _, pattern := range []string{"../docs/*.md", "../docs/*/*.md", "*.sh", "*/*.sh"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v, %v", pattern, found, err)
		}
		pages = append(pages, found...)
	}
	named := map[string][]string{}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?:go run \./bench|"\$bench") ?([a-z]*)`).FindAllSubmatch(text, -1) {
			named[string(m[1])] = append(named[string(m[1])], page)
		}
	}
	for _, c := range commands() {
		if !slices.Contains(named[c.name], "README.md") {
			t.Errorf("README.md has no row for %s", c.name)
		}
		delete(named, c.name)
	}
	delete(named, "") // SUB, which stands for any
	for name, pages := range named {
		t.Errorf("%v: there is no subcommand %q", pages, name)
	}
}
