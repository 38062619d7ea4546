package commands

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"diskgnn/internal/budget"
	"diskgnn/internal/vfs/vfstest"
)

// planning are the commands that plan memory, in an order in which each finds what it
// reads: of a graph of so many nodes and features, and of the GraphBolt tree in "tree".
func planning(nodes, dim int) []string {
	return []string{
		fmt.Sprintf("generate --out g --nodes %d --dim %d --classes 4 --train-ratio 0.3", nodes, dim),
		"import --format graphbolt --out imported tree",
		fmt.Sprintf("generate --out types --nodes %d --dim %d --classes 4 --types 3 --featureless 2", nodes, dim),
		fmt.Sprintf("generate --out filled --nodes %d --dim %d --classes 4 --types 3 --featureless 2 --fill mean", nodes, dim),
		"export --dataset types --format graphbolt --out typestree",
		"import --format graphbolt --typed --fill mean --compress --dtype float16 --out refilled typestree",
		"export --dataset g --format graphbolt --out bolt",
		"export --dataset g --format npy --out arrays",
		"presample --dataset g --out s --batch-size 256 --fanout 3,3 --epochs 2",
		"presample --dataset g --out overlap --batch-size 256 --fanout 3,3 --order overlap",
		"presample --dataset g --out cached --batch-size 256 --fanout 3,3 --topology cached",
		"presample --dataset g --out ginex --batch-size 256 --fanout 3,3 --topology cached --topology-memory 50% --topology-order ginex",
		"pack --dataset g --samples s --out p --cache 10%",
		"pack --dataset g --samples s --out zstd --cache 10% --compress-chunks zstd --eval-chunks",
		"pack --dataset g --samples s --out auto --cache 10% --compress-chunks auto",
		"pack --dataset g --samples s --out min --cache 10% --policy min",
		"pack --dataset g --samples s --out segments --cache 10% --max-disk 4x",
		"train --pack p --out sage --epochs 3 --hidden 32",
		"train --pack zstd --out gat --epochs 3 --hidden 32 --model gat",
		"train --pack min --out gcn --epochs 3 --hidden 32 --model gcn",
		"train --pack segments --out none --epochs 3 --engine none",
		"train --dataset g --samples s --out memory --epochs 3 --hidden 32",
		"train --store hyperion --dataset g --samples s --out hyperion --epochs 3 --hidden 32",
		"train --dataset g --store hyperion --fanout 3,3 --out divided --batch-size 256 --epochs 3 --hidden 32 --topology cached",
		"train --dataset g --store rows --fanout 3,3 --out live --batch-size 256 --epochs 3 --hidden 32 --topology cached --ram-cache 10%",
		"train --store gids --dataset g --samples s --out gids --epochs 3 --hidden 32",
		"eval --run sage --pack p",
		"eval --run gat --dataset g --exact --max-read unlimited",
		"predict --run gcn --dataset g --out classes.npy --max-read unlimited",
	}
}

// TestReserve: on a tiny graph, where buffers are next to nothing, no command holds more
// than the reserve. What is logged is what budget.Reserve is chosen by. Reads are those of
// pread, since io_uring pins whole buffers, touched or not. A slot that reads row by row, or
// neighbours, has staging of megabytes for any graph: those have one slot.
func TestReserve(t *testing.T) {
	t.Chdir(t.TempDir())
	tree(t, "tree")
	for _, command := range planning(2000, 32) {
		if reads := []string{"pack", "train", "eval", "predict"}; slices.Contains(reads, strings.Fields(command)[0]) {
			command += " --io pread"
		}
		if strings.HasPrefix(command, "train ") && strings.Contains(command, "--topology cached") {
			command += " --slots 1"
		}
		peak, refusal := peakOf(t, command)
		if refusal != "" || peak > budget.Reserve {
			t.Errorf("%s: %s are held, the reserve is %s %s", command, budget.FormatBytes(peak), budget.FormatBytes(budget.Reserve), refusal)
		}
		t.Logf("%8s: %s", budget.FormatBytes(peak), command)
	}
}

// TestPeakIsPlanned: every command runs with the memory that its refusals of less name, and holds
// no more than that.
func TestPeakIsPlanned(t *testing.T) {
	t.Chdir(t.TempDir())
	tree(t, "tree")
	for _, command := range planning(20_000, 32) {
		isPlanned(t, command)
	}
}

// atOnce tells whether the first refusal of a command names memory that is enough. Others check
// theirs step by step, each before it is begun, and name what the step takes.
func atOnce(command string) bool {
	word, _, _ := strings.Cut(command, " ")
	return slices.Contains([]string{"generate", "import", "export", "presample", "predict"}, word) || strings.Contains(command, "--exact")
}

// isPlanned runs a command with the memory that its refusals of less name.
func isPlanned(t *testing.T, command string) {
	t.Helper()
	least := int64(1)
	peak, refusal := peakOf(t, command+" --memory 1MiB")
	for tries := 0; refusal != ""; tries++ {
		if tries > 0 && atOnce(command) {
			t.Errorf("%s: the %d MiB that were named are refused: %s", command, least, refusal)
		}
		if least = max(mebibytesNamed(refusal), least+1); tries > 4 {
			t.Fatalf("%s: %s", command, refusal)
		}
		peak, refusal = peakOf(t, fmt.Sprintf("%s --memory %dMiB", command, least))
	}
	if least<<20 <= budget.Reserve || peak > least<<20 {
		t.Errorf("%s: %s are held, %d MiB are planned", command, budget.FormatBytes(peak), least)
	}
	t.Logf("%8s of %3d MiB: %s", budget.FormatBytes(peak), least, command)
}

// TestPeakOfParquetIsPlanned: pages of many columns are planned, and refused at once where they do not
// fit; millions of equal values in a file of a few kilobytes are read within the plan.
func TestPeakOfParquetIsPlanned(t *testing.T) {
	t.Chdir(t.TempDir())
	const nodes, columns, edges = 50_000, 80, 4_000_000
	one := parquet.PageBufferSize(1 << 30) // page a column
	fields := parquet.Group{}
	for c := range columns {
		fields[fmt.Sprintf("c%02d", c)] = parquet.Leaf(parquet.FloatType)
	}
	f, err := os.Create("wide.parquet")
	must(t, err)
	wide := parquet.NewWriter(f, parquet.NewSchema("wide", fields), one)
	rng, row := rand.New(rand.NewPCG(1, 2)), make(parquet.Row, columns)
	for range nodes {
		for c := range row {
			row[c] = parquet.FloatValue(rng.Float32()).Level(0, 0, c)
		}
		_, err := wide.WriteRows([]parquet.Row{row})
		must(t, err)
	}
	must(t, wide.Close())
	must(t, f.Close())
	type edge struct {
		From int64 `parquet:"from,dict"`
		To   int64 `parquet:"to,dict"`
	}
	must(t, parquet.WriteFile("few.parquet", []edge{{0, 1}, {1, 2}}))
	equal := make([]edge, edges)
	for i := range equal {
		equal[i] = edge{0, int64(i) * nodes / edges}
	}
	must(t, parquet.WriteFile("equal.parquet", equal, one))
	for edges, features := range map[string]string{"few": "wide.parquet", "equal": "random:4"} {
		isPlanned(t, fmt.Sprintf("import --format raw --edges %s.parquet --nodes %d --features %s --labels random:3 --split 60/20/20 --out %s", edges, nodes, features, edges))
	}
	// The column is named where pages take the most. Equal values take no memory of their own.
	command := "import --format raw --edges few.parquet --features wide.parquet --labels random:3 --split 60/20/20 --out x --memory 44MiB"
	if _, refusal := peakOf(t, command); !strings.Contains(refusal, "; column c") || !strings.Contains(refusal, " takes the most, ") {
		t.Errorf("%s: %q", command, refusal)
	}
}

// TestPeakOfDrivesIsPlanned: what controllers in software hold, some 10 MiB each, is planned.
func TestPeakOfDrivesIsPlanned(t *testing.T) {
	t.Chdir(t.TempDir())
	drives := "soft:d0,d1,d2,d3,d4,d5"
	for _, command := range []string{
		"generate --out g --nodes 20000 --dim 32 --classes 4 --train-ratio 0.3",
		"presample --dataset g --out s --batch-size 256 --fanout 3,3 --epochs 2",
		"pack --dataset g --samples s --out p --cache 10%",
		"nvme load p " + drives + " --size 16MiB",
	} {
		diskgnn(t, command)
	}
	isPlanned(t, "train --pack p --out run --epochs 3 --hidden 32 --io nvme:"+drives)
	isPlanned(t, "eval --run run --pack p --io nvme:"+drives)
}

// TestTopologyOfTwiceTheMemory: a topology of twice --memory is sampled within it, by presample
// and while training, which leave most of it on the drive. The samples are those of the mapped
// topology.
func TestTopologyOfTwiceTheMemory(t *testing.T) {
	t.Chdir(vfstest.Drive(t))
	const memory, indices = 46 << 20, 4 * 60_500 * 400 // bytes
	run := func(command string) result {
		t.Helper()
		r, refusal := resultOf(t, command)
		if refusal != "" {
			t.Fatalf("%s: %s", command, refusal)
		}
		t.Logf("%8s, resident %8s: %s", budget.FormatBytes(r.Peak), budget.FormatBytes(r.Resident), command)
		return r
	}
	if indices < 2*memory {
		t.Fatal("the topology is too small")
	}
	run("generate --out g --nodes 60500 --avg-degree 400 --dim 4 --classes 4 --train-ratio 0.02")
	mapped := run("presample --dataset g --out mapped --batch-size 32 --fanout 5,5")
	for _, command := range []string{
		"presample --dataset g --out cached --batch-size 32 --fanout 5,5 --topology cached",
		"train --store memory --dataset g --out run --batch-size 32 --fanout 5,5 --epochs 1 --engine none --topology cached --topology-memory 1MiB",
	} {
		r := run(fmt.Sprintf("%s --memory %dB", command, memory))
		if r.Peak > memory || r.Resident > indices || r.Fingerprint != "" && r.Fingerprint != mapped.Fingerprint {
			t.Errorf("%s: %+v, mapped %+v", command, r, mapped)
		}
	}
}

// result is what the tests of memory look at.
type result struct {
	Fingerprint string `json:"fingerprint"`
	Peak        int64  `json:"peak_anon_bytes"`
	Resident    int64  `json:"peak_rss_bytes"`
}

// peakOf runs a command in a process of its own and returns the anonymous memory that it
// held, or why its memory does not suffice.
func peakOf(t *testing.T, command string) (peak int64, refusal string) {
	t.Helper()
	r, refusal := resultOf(t, command)
	return r.Peak, refusal
}

// resultOf runs a command in a process of its own and returns its result, or why its memory
// does not suffice.
func resultOf(t *testing.T, command string) (r result, refusal string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "diskgnn", append(strings.Fields(command), "--quiet", "--json")...)
	cmd.Env = append(cmd.Environ(), "GOGC=100") // Go's own, whatever the tests run with
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if cmd.ProcessState != nil && cmd.ProcessState.ExitCode() == exitSpace {
		return r, stderr.String()
	}
	if err == nil {
		err = json.Unmarshal(stdout.Bytes(), &r)
	}
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, stderr.String())
	}
	if r.Peak == 0 {
		t.Skip("the kernel does not say what a process holds")
	}
	return r, ""
}

// mebibytesNamed returns the memory that a refusal says is needed, in whole MiB; 0 if it
// says none.
func mebibytesNamed(refusal string) int64 {
	m := regexp.MustCompile(`--memory ([0-9.]+)MiB (?:is enough|would do)|would do: --memory ([0-9.]+)MiB`).FindStringSubmatch(refusal)
	if m == nil {
		m = regexp.MustCompile(`(?:needs|at least) ([0-9.]+) ?MiB`).FindStringSubmatch(refusal)
	}
	if m == nil {
		return 0
	}
	m[1] = strings.Join(m[1:], "")
	n, _ := strconv.ParseFloat(m[1], 64)
	return int64(math.Ceil(n))
}
