package train

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"diskgnn/internal/fault"
	"diskgnn/internal/job"
	"diskgnn/internal/program"
	"diskgnn/internal/progress"
	"diskgnn/internal/secret"
	"diskgnn/train/collective"
	"diskgnn/train/ranks"
	"diskgnn/train/rundir"
)

func noVariable(string) string { return "" }

// identity returns the RunID of a rank whose working directory is dir.
func identity(t *testing.T, dir string, o Options, env job.Env) string {
	t.Helper()
	if dir != "" {
		t.Chdir(dir)
	}
	if err := o.Identify([]string{o.Out, o.Pack, o.Dataset, o.Samples}, env); err != nil {
		t.Fatal(err)
	}
	return o.RunID
}

// What tells runs apart, and what does not.
func TestIdentify(t *testing.T) {
	root := t.TempDir()
	for _, d := range []string{"a", "b"} {
		if err := os.Mkdir(filepath.Join(root, d), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(root, "link")
	if err := os.Symlink(filepath.Join(root, "a"), link); err != nil {
		t.Fatal(err)
	}
	a, b := filepath.Join(root, "a"), filepath.Join(root, "b")
	here := Options{Out: "run", Pack: "pack", Membership: ranks.Membership{Job: job.Place{Count: 2, Host: "127.0.0.1", Port: 29400}}}
	there := here
	there.Job.Host = "n1"
	with := func(o Options, change func(*Options)) Options { change(&o); return o }
	slurm := func(name string) string { return map[string]string{"SLURM_JOB_ID": "7"}[name] }
	for what, c := range map[string]struct {
		one, other string
		same       bool
	}{
		"another directory, on one host":      {identity(t, a, here, noVariable), identity(t, b, here, noVariable), false},
		"the same by a link":                  {identity(t, a, here, noVariable), identity(t, link, here, noVariable), true},
		"the same by another name of a host":  {identity(t, a, here, noVariable), identity(t, a, with(here, func(o *Options) { o.Job.Host = "localhost" }), noVariable), true},
		"the same written absolutely":         {identity(t, a, here, noVariable), identity(t, a, with(here, func(o *Options) { o.Out = a + "/x/../run" }), noVariable), true},
		"another rank":                        {identity(t, a, here, noVariable), identity(t, a, with(here, func(o *Options) { o.Job.Index = 1 }), noVariable), true},
		"another world":                       {identity(t, a, here, noVariable), identity(t, a, with(here, func(o *Options) { o.Job.Count = 4 }), noVariable), true},
		"another directory, on several hosts": {identity(t, a, there, noVariable), identity(t, b, there, noVariable), true},
		"another out":                         {identity(t, a, there, noVariable), identity(t, a, with(there, func(o *Options) { o.Out = "run2" }), noVariable), false},
		"another pack":                        {identity(t, a, there, noVariable), identity(t, a, with(there, func(o *Options) { o.Pack = "pack2" }), noVariable), false},
		"another dataset":                     {identity(t, a, there, noVariable), identity(t, a, with(there, func(o *Options) { o.Dataset = "g" }), noVariable), false},
		"another port":                        {identity(t, a, there, noVariable), identity(t, a, with(there, func(o *Options) { o.Job.Port++ }), noVariable), false},
		"another job":                         {identity(t, a, there, noVariable), identity(t, a, there, slurm), false},
	} {
		if (c.one == c.other) != c.same || len(c.one) != 64 {
			t.Errorf("%s: %s and %s", what, c.one, c.other)
		}
	}
}

// freePort returns one with room after it.
func freePort(t *testing.T) int {
	t.Helper()
	for {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		l.Close()
		if port <= 1<<16-job.Ports {
			return port
		}
	}
}

// Two runs side by side on one host, with equal paths and ports, get their own ranks, in whatever
// order they come.
func TestRunsSideBySide(t *testing.T) {
	root, port := t.TempDir(), freePort(t)
	const world = 3
	options := make(map[string]Options)
	for _, run := range []string{"a", "b"} {
		dir := filepath.Join(root, run)
		if err := os.Mkdir(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		o := Options{Out: "run", Pack: "pack", Membership: ranks.Membership{Job: job.Place{Count: world, Host: "127.0.0.1", Port: port}}}
		o.RunID = identity(t, dir, o, noVariable)
		options[run] = o
	}
	heard := make(map[string]string)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, rank := range []string{"a0", "b0", "a1", "b2", "a2", "b1"} {
		run := rank[:1]
		o := options[run]
		o.Job.Index, _ = strconv.Atoi(rank[1:])
		wg.Go(func() {
			g, err := ranks.Join(context.Background(), &o.Membership, progress.Discard)
			if err != nil {
				t.Errorf("%s: %v", rank, err)
				return
			}
			defer g.Close()
			b, err := g.Broadcast([]byte(run), 1)
			if err == nil {
				_, err = g.Gather(nil, 0)
			}
			if err != nil {
				t.Errorf("%s: %v", rank, err)
			}
			mu.Lock()
			defer mu.Unlock()
			heard[rank] = string(b)
		})
	}
	wg.Wait()
	if want := "map[a0:a a1:a a2:a b0:b b1:b b2:b]"; fmt.Sprint(heard) != want {
		t.Errorf("%v, want %s", heard, want)
	}
}

// Ranks that other hosts reach want a secret, on each of them before anything listens or looks; on
// one host they need none.
func TestSecretIsWanted(t *testing.T) {
	s, err := secret.New("0123456789abcdef", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, index := range []int{0, 1} {
		for what, c := range map[string]struct {
			host     string
			secret   secret.Secret
			insecure bool
			refused  bool
			says     string
		}{
			"one host":             {"127.0.0.1", secret.Secret{}, false, false, ""},
			"one host, a secret":   {"127.0.0.1", s, false, false, "only ranks with the secret take part"},
			"several":              {"203.0.113.1", secret.Secret{}, false, true, ""},
			"several, by a name":   {"n1", secret.Secret{}, false, true, ""},
			"several, a secret":    {"n1", s, false, false, "only ranks with the secret take part"},
			"several, open":        {"n1", secret.Secret{}, true, false, "--insecure: whoever reaches n1"},
			"several, open secret": {"n1", s, true, false, "only ranks with the secret take part"},
		} {
			var log logged
			o := Options{Membership: ranks.Membership{Job: job.Place{Index: index, Count: 2, Host: c.host, Port: 29400}, Secret: c.secret, Insecure: c.insecure}}
			err := o.Trusts(&log)
			if (err != nil) != c.refused || err != nil && !errors.Is(err, fault.ErrUsage) || !strings.Contains(log.String(), c.says) || c.says == "" && log.String() != "" {
				t.Errorf("%s: %v, said %q", what, err, log.String())
			}
			if c.refused {
				if g, err := ranks.Join(t.Context(), &o.Membership, progress.Discard); g != nil || !errors.Is(err, fault.ErrUsage) {
					t.Errorf("%s: joined: %v", what, err)
				}
			}
		}
	}
}

// A run with a secret has the bits of one without.
func TestSecretKeepsBits(t *testing.T) {
	s, err := secret.New("0123456789abcdef", "")
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, worldParams{nodes: 120})
	o := w.options(w.pack(10), func(o *Options) { o.Epochs, o.Hidden, o.Accumulate, o.Norm = 2, 8, 2, "batch" })
	r := party{w: w}.must(2, o)
	want := w.learned(o.Out, &r)
	port := freePort(t)
	all := party{w: w, parts: func(rank int, p *parts) {
		p.join = func(ctx context.Context, o *ranks.Membership, rep progress.Reporter) (*collective.Group, error) {
			with := *o
			with.RunID, with.Secret, with.Job = "run", s, job.Place{Index: rank, Count: 2, Host: "localhost", Port: port}
			return ranks.Join(ctx, &with, rep)
		}
	}}
	secretly := w.fresh(o)
	r = all.must(2, secretly)
	if got := w.learned(secretly.Out, &r); got != want {
		t.Errorf("with a secret:\n%.500s\nwithout:\n%.500s", got, want)
	}
	for _, file := range []string{"run.json", "metrics.jsonl"} {
		if b, err := os.ReadFile(filepath.Join(secretly.Out, file)); err != nil || strings.Contains(string(b), "0123456789abcdef") {
			t.Errorf("%s has the secret, %v", file, err)
		}
	}
}

// run.json records the program by its hash, and a run that goes on says when the program is another
// one, if that is known of both.
func TestAnotherProgram(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 120})
	o := w.options(w.pack(10), func(o *Options) { o.Epochs, o.Hidden = 1, 8 })
	w.mustRun(o, nil)
	if f, err := rundir.Read(disk, o.Out); err != nil || f.ProgramHash != program.Hash() || len(f.ProgramHash) != 64 {
		t.Errorf("%q, %v", f.ProgramHash, err)
	}
	of := func(version, hash string) *rundir.File { return &rundir.File{Version: version, ProgramHash: hash} }
	for _, c := range []struct {
		was, now *rundir.File
		want     string
	}{
		{of("1", "aa"), of("1", "aa"), ""},
		{of("1", "aa"), of("1", "bb"), "program 1, SHA-256 bb (was 1, SHA-256 aa)"},
		{of("1", ""), of("1", "bb"), ""},
		{of("1", "aa"), of("1", ""), ""},
		{of("1", ""), of("2", "bb"), "program 2 (was 1)"},
	} {
		if got := changes(c.was, c.now); got != c.want {
			t.Errorf("%s and %s: %q, want %q", c.was.ProgramHash, c.now.ProgramHash, got, c.want)
		}
	}
}

// sayer is a reporter that hears what is said.
type sayer func(text string)

func (sayer) Task(string, int64, progress.Unit) progress.Task {
	return progress.Discard.Task("", 0, progress.Nodes)
}

func (s sayer) Logf(format string, args ...any) { s(fmt.Sprintf(format, args...)) }

// A rank with another secret finds no run.
func TestAnotherSecret(t *testing.T) {
	port := freePort(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	for index, word := range []string{"0123456789abcdef", "0123456789abcdeX"} {
		s, err := secret.New(word, "")
		if err != nil {
			t.Fatal(err)
		}
		o := Options{Membership: ranks.Membership{Job: job.Place{Index: index, Count: 2, Host: "127.0.0.1", Port: port}, RunID: "run", Secret: s}}
		wg.Go(func() {
			g, err := ranks.Join(ctx, &o.Membership, sayer(func(text string) {
				if strings.Contains(text, "does not prove that it has the secret") {
					cancel()
				}
			}))
			if g != nil || !errors.Is(err, context.Canceled) {
				t.Errorf("rank %d: %v", index, err)
			}
		})
	}
	wg.Wait()
}
