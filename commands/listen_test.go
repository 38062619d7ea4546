package commands

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// A run under way is to be seen where train says, and at the same address no other. It ends
// with the run.
func TestListen(t *testing.T) {
	t.Chdir(t.TempDir())
	diskgnn(t, "generate --out g --nodes 2000 --dim 16 --classes 4 --train-ratio 0.5")
	diskgnn(t, "presample --dataset g --out s --batch-size 64 --fanout 4,4")
	diskgnn(t, "pack --dataset g --samples s --out p")

	cmd := exec.Command("diskgnn", strings.Fields("train --pack p --out r --epochs 100000 --hidden 8 --listen 127.0.0.1:0 --progress json")...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: cmd}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	var at struct{ URL, Metrics string }
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		var e struct {
			Event  string
			Record json.RawMessage
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatalf("%s: %v", lines.Bytes(), err)
		}
		if e.Event == "listening" {
			if err := json.Unmarshal(e.Record, &at); err != nil {
				t.Fatal(err)
			}
		}
		if e.Event == "epoch" {
			break
		}
	}
	go func() { _, _ = io.Copy(io.Discard, stderr) }()
	if !regexp.MustCompile(`^http://127\.0\.0\.1:\d+/$`).MatchString(at.URL) || at.Metrics != at.URL+"metrics" {
		t.Fatalf("listening at %+v", at)
	}
	for path, want := range map[string]string{
		"":        `<b>r</b>, `,
		"report":  "<h1>GraphSAGE on p</h1>",
		"metrics": "\n" + `diskgnn_read_bytes_total{level="cold"} `,
		"healthz": "ok\n",
	} {
		a, err := http.Get(at.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(a.Body)
		a.Body.Close()
		if err != nil || a.StatusCode != http.StatusOK || !bytes.Contains(body, []byte(want)) {
			t.Errorf("/%s: %s, %v, %s", path, a.Status, err, body)
		}
	}

	other := begin(t, "train --pack p --out other --quiet --listen "+strings.Trim(at.URL, "htp:/"))
	if code := other.end(); code != exitUsage || !strings.HasSuffix(other.stderr.String(), ": address already in use\n") || strings.Count(other.stderr.String(), "\n") != 1 {
		t.Errorf("at a taken address: exit code %d, %s", code, &other.stderr)
	}
	if _, err := os.Stat("other"); err == nil {
		t.Error("a run was begun at a taken address")
	}

	p.send(t, syscall.SIGINT)
	if code := p.end(); code != exitInterrupted {
		t.Errorf("exit code %d", code)
	}
	if a, err := http.Get(at.URL); err == nil {
		a.Body.Close()
		t.Error("still served when the run is over")
	}
}

// With --quiet the address is said all the same, and nothing else: where port 0 was asked for, it is
// not known otherwise. A secret is not shown by the process's command line, nor by what it prints.
func TestListenQuietly(t *testing.T) {
	t.Chdir(t.TempDir())
	diskgnn(t, "generate --out g --nodes 2000 --dim 16 --classes 4 --train-ratio 0.5")
	diskgnn(t, "presample --dataset g --out s --batch-size 64 --fanout 4,4")
	diskgnn(t, "pack --dataset g --samples s --out p")
	const word = "0123456789abcdef0123"
	t.Setenv("DISKGNN_SECRET", word)
	for _, way := range []string{"--quiet", "--progress none"} {
		cmd := exec.Command("diskgnn", strings.Fields("train --pack p --out r --force --epochs 100000 --hidden 8 --listen 0.0.0.0:0 "+way)...)
		stderr, err := cmd.StderrPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		lines := bufio.NewScanner(stderr)
		lines.Scan()
		url := regexp.MustCompile(`^listening: the report is at (http://\S+/), metrics are at \S+/metrics$`).FindStringSubmatch(lines.Text())
		if url == nil {
			t.Fatalf("%s: says %q", way, lines.Text())
		}
		port := url[1][strings.LastIndex(url[1], ":"):]
		for token, want := range map[string]int{"": 401, word: 401, "f2d0": 401, tokenOf(t, word): 200} {
			r, err := http.NewRequest("GET", "http://127.0.0.1"+port+"metrics", nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer "+token)
			a, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			a.Body.Close()
			if a.StatusCode != want {
				t.Errorf("%s: with the token %q: %s", way, token, a.Status)
			}
		}
		p := &process{cmd: cmd}
		p.send(t, syscall.SIGINT)
		rest := ""
		for lines.Scan() {
			rest += lines.Text() + "\n"
		}
		if code := p.end(); code != exitInterrupted || strings.Count(rest, "\n") != 1 || strings.Contains(rest, word) {
			t.Errorf("%s: exit code %d, then says\n%s", way, code, rest)
		}
	}
}

// tokenOf returns the token of a secret as the documentation has it made.
func tokenOf(t *testing.T, word string) string {
	t.Helper()
	h := hmac.New(sha256.New, []byte(word))
	h.Write([]byte("diskgnn listen"))
	return hex.EncodeToString(h.Sum(nil))
}

// Importing net/http/pprof, anywhere in the program, would serve profiles without the guard of --listen.
func TestNoDefaultHandlers(t *testing.T) {
	r, err := http.NewRequest("GET", "http://localhost/debug/pprof/", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, pattern := http.DefaultServeMux.Handler(r); pattern != "" {
		t.Errorf("http.DefaultServeMux serves %q", pattern)
	}
}
