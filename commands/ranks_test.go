package commands

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"diskgnn/internal/job"
)

// rankPort returns a port that rank 0 may listen at, or at one after it.
func rankPort(t *testing.T) string {
	t.Helper()
	for {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		l.Close()
		if port <= 1<<16-job.Ports {
			return strconv.Itoa(port)
		}
	}
}

// smallPack makes a graph g, samples s and a pack p in a directory.
func smallPack(t *testing.T, dir, seed string) {
	t.Helper()
	in := func(stage string) string { return filepath.Join(dir, stage) }
	diskgnn(t, "generate --out "+in("g")+" --nodes 1000 --dim 8 --classes 4 --train-ratio 0.2 --seed "+seed)
	diskgnn(t, "presample --dataset "+in("g")+" --out "+in("s")+" --batch-size 32 --fanout 4,4")
	diskgnn(t, "pack --dataset "+in("g")+" --samples "+in("s")+" --out "+in("p"))
}

// A rank that is killed while others are missing is replaced: ranks 0 and 1 of 3 begin, 1 is killed
// and begins again, 2 begins, and they make a run.
func TestReplacedRank(t *testing.T) {
	t.Chdir(t.TempDir())
	smallPack(t, ".", "1")
	t.Setenv("MASTER_ADDR", "localhost")
	t.Setenv("MASTER_PORT", rankPort(t))
	const train = "train --pack p --out run --epochs 1 --hidden 8 --rank "
	root := exec.Command("diskgnn", strings.Fields(train+"0/3")...)
	stderr, err := root.StderrPipe()
	if err == nil {
		err = root.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Process.Kill() })
	lines := bufio.NewScanner(stderr)
	until := func(text string) {
		t.Helper()
		for lines.Scan() {
			if strings.Contains(lines.Text(), text) {
				return
			}
		}
		t.Fatalf("rank 0 ends without %q", text)
	}
	killed := begin(t, train+"1/3")
	until("rank 1 of 3 is there")
	if err := killed.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	killed.end()
	until("rank 1 of 3 (127.0.0.1:")
	others := []*process{begin(t, train+"1/3"), begin(t, train+"2/3")}
	rest, err := io.ReadAll(stderr)
	if err != nil {
		t.Fatal(err)
	}
	for rank, p := range append([]*process{{cmd: root}}, others...) {
		if code := p.end(); code != exitDone {
			t.Errorf("rank %d: exit code %d\n%s%s", rank, code, &p.stderr, rest)
		}
	}
}

// Two runs of one host with equal paths and one MASTER_PORT get their own ranks, in whatever order
// these come, and a rank of another world size changes nothing.
func TestRunsDoNotMix(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("MASTER_ADDR", "localhost")
	t.Setenv("MASTER_PORT", rankPort(t))
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	const train = "train --pack p --out run --epochs 1 --hidden 8 --rank "
	alone := make(map[string][]byte)
	for i, dir := range []string{"a", "b"} {
		smallPack(t, dir, strconv.Itoa(i))
		diskgnn(t, "train --pack "+dir+"/p --out "+dir+"/alone --epochs 1 --hidden 8 --accumulate 3")
		alone[dir] = read(t, dir+"/alone", "weights.safetensors")
	}
	if bytes.Equal(alone["a"], alone["b"]) {
		t.Fatal("nothing tells the runs apart")
	}
	var all []*process
	for _, rank := range []string{"a0", "b0", "a1", "b2", "a2", "b1"} {
		t.Chdir(filepath.Join(here, rank[:1]))
		if rank == "b2" {
			if p := begin(t, train+"1/4"); p.end() != exitUsage || !strings.Contains(p.stderr.String(), "it was started for 4 ranks") {
				t.Errorf("a rank of another world: %s", &p.stderr)
			}
		}
		all = append(all, begin(t, train+rank[1:]+"/3"))
	}
	for _, p := range all {
		if code := p.end(); code != exitDone {
			t.Errorf("%v: exit code %d\n%s", p.cmd.Args, code, &p.stderr)
		}
	}
	t.Chdir(here)
	for dir, want := range alone {
		if !bytes.Equal(read(t, dir+"/run", "weights.safetensors"), want) {
			t.Errorf("%s/run is not what one process trains there", dir)
		}
	}
}

// outward returns an address of this host that other hosts may reach.
func outward(t *testing.T) string {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
			return n.IP.String()
		}
	}
	t.Skip("this host has no address but the loopback's")
	return ""
}

// At an address that other hosts reach ranks want a secret, and train with it what one process does.
func TestRanksWithSecret(t *testing.T) {
	t.Chdir(t.TempDir())
	smallPack(t, ".", "1")
	const word = "0123456789abcdef0123"
	if err := os.WriteFile("secret", []byte(word+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("MASTER_ADDR", outward(t))
	t.Setenv("MASTER_PORT", rankPort(t))
	const train = "train --pack p --epochs 1 --hidden 8 "
	diskgnn(t, train+"--out alone --accumulate 2 --rank 0/1")
	for _, rank := range []string{"0/2", "1/2"} {
		p := begin(t, train+"--out refused --rank "+rank)
		if code := p.end(); code != exitUsage || !strings.Contains(p.stderr.String(), "--secret-file") {
			t.Errorf("rank %s without a secret: exit code %d, %s", rank, code, &p.stderr)
		}
	}
	both := []*process{begin(t, train+"--out run --secret-file secret --rank 0/2")}
	t.Setenv("DISKGNN_SECRET", word)
	both = append(both, begin(t, train+"--out run --rank 1/2"))
	for rank, p := range both {
		if code := p.end(); code != exitDone || !strings.Contains(p.stderr.String(), "only ranks with the secret take part") || strings.Contains(p.stderr.String()+p.stdout.String(), word) {
			t.Errorf("rank %d: exit code %d\n%s%s", rank, code, &p.stdout, &p.stderr)
		}
	}
	if !bytes.Equal(read(t, "run", "weights.safetensors"), read(t, "alone", "weights.safetensors")) {
		t.Error("with a secret, ranks train something else")
	}
	t.Setenv("DISKGNN_SECRET", " ")
	if p := begin(t, train+"--out refused"); p.end() != exitUsage || !strings.Contains(p.stderr.String(), "DISKGNN_SECRET has no secret") {
		t.Errorf("an empty secret: %s", &p.stderr)
	}
	if _, err := os.Stat("refused"); err == nil {
		t.Error("a refused run was begun")
	}
}
