package commands

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// launcher is a program that starts others several times.
type launcher struct {
	name string
	// find returns its command line for n processes and its environment, or why it is not here.
	find func(t *testing.T, n string) (command, env []string, missing string)
}

// launchers are those of other projects that processes find their places by: package job.
var launchers = []launcher{
	{"mpirun", mpirun},
	{"torchrun", torchrun},
}

// mpirun is Open MPI's: of this machine, or of those that `make slurm-toolchain` unpacked.
func mpirun(t *testing.T, n string) (command, env []string, missing string) {
	options := []string{"--allow-run-as-root", "--oversubscribe", "-np", n}
	if path, err := exec.LookPath("mpirun"); err == nil {
		return append([]string{path}, options...), nil, ""
	}
	usr, err := filepath.Abs("../.slurm/usr")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(usr, "bin", "mpirun.openmpi")
	if _, err := os.Stat(path); err != nil {
		return nil, nil, "there is no mpirun (make slurm-toolchain fetches one)"
	}
	lib := filepath.Join(usr, "lib", "x86_64-linux-gnu")
	return append([]string{path}, options...), []string{
		"LD_LIBRARY_PATH=" + lib + ":" + filepath.Join(lib, "openmpi", "lib"),
		// Where Open MPI looks for what belongs to it.
		"OPAL_PREFIX=" + usr, "OPAL_LIBDIR=" + lib, "OPAL_DATADIR=" + filepath.Join(usr, "share"),
		"OPAL_PKGLIBDIR=" + filepath.Join(lib, "openmpi", "lib", "openmpi3"),
	}, ""
}

// torchrun is PyTorch's: of this machine, or of the Python that PYG names.
func torchrun(_ *testing.T, n string) (command, env []string, missing string) {
	path, err := exec.LookPath("torchrun")
	if python := os.Getenv("PYG"); err != nil && python != "" {
		path, err = exec.LookPath(filepath.Join(filepath.Dir(python), "torchrun"))
	}
	if err != nil {
		return nil, nil, "there is no torchrun (PYG may name a Python that has one beside it)"
	}
	return []string{path, "--no-python", "--standalone", "--nproc-per-node", n}, nil, ""
}

// launched runs diskgnn by a launcher's command line, and returns what all processes printed.
func launched(t *testing.T, command, env []string, arguments string) string {
	t.Helper()
	all := slices.Concat(command, []string{"diskgnn"}, strings.Fields(arguments))
	cmd := exec.Command(all[0], all[1:]...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", all, err, out)
	}
	return string(out)
}

// Processes that launchers start make one shard each, and together what one process makes.
func TestLaunched(t *testing.T) {
	for _, l := range launchers {
		t.Run(l.name, func(t *testing.T) {
			command, env, missing := l.find(t, "3")
			if missing != "" {
				t.Skip(missing)
			}
			t.Chdir(t.TempDir())
			diskgnn(t, "generate --out g --nodes 3000 --dim 4 --classes 3 --train-ratio 0.5")
			diskgnn(t, "presample --dataset g --out s --batch-size 16 --fanout 3,4")
			diskgnn(t, "pack --dataset g --samples s --out p")
			launch := func(arguments string) {
				t.Helper()
				if out := launched(t, command, env, arguments); strings.Count(out, " of 3 by ") != 3 {
					t.Errorf("not all processes say their place:\n%s", out)
				}
			}
			launch("presample --dataset g --out m --batch-size 16 --fanout 3,4 --shard auto")
			diskgnn(t, "merge --out m m.shard-0-of-3 m.shard-1-of-3 m.shard-2-of-3")
			launch("pack --dataset g --samples m --out q --shard auto/3")
			diskgnn(t, "merge --out q q.shard-0-of-3 q.shard-1-of-3 q.shard-2-of-3")
			for _, pair := range [][2]string{{"s", "m"}, {"p", "q"}} {
				if a, b := read(t, pair[0], "meta.json"), read(t, pair[1], "meta.json"); string(a) != string(b) {
					t.Errorf("%s is not %s", pair[1], pair[0])
				}
			}
		})
	}
}

// Ranks that launchers start train what one process does with the same batches in a step.
func TestLaunchedRanks(t *testing.T) {
	for _, l := range launchers {
		t.Run(l.name, func(t *testing.T) {
			command, env, missing := l.find(t, "2")
			if missing != "" {
				t.Skip(missing)
			}
			t.Chdir(t.TempDir())
			diskgnn(t, "generate --out g --nodes 3000 --dim 4 --classes 3 --train-ratio 0.5")
			diskgnn(t, "presample --dataset g --out s --batch-size 64 --fanout 3,4")
			diskgnn(t, "pack --dataset g --samples s --out p")
			const train = "train --pack p --epochs 2 --hidden 8 --dropout 0.5 --threads 1 "
			diskgnn(t, train+"--out alone --accumulate 2")
			for _, way := range []struct {
				out string
				env []string
			}{
				// All on one host: nobody else reaches them, whatever MASTER_ADDR says.
				{"run", []string{"MASTER_ADDR=" + outward(t)}},
				{"secret", []string{"DISKGNN_SECRET=0123456789abcdef0123"}},
			} {
				said := launched(t, command, append(slices.Clone(env), way.env...), train+"--rank auto --out "+way.out)
				for _, rank := range []string{"rank 0 of 2 by ", "rank 1 of 2 by ", ", the first at 127.0.0.1:"} {
					if !strings.Contains(said, rank) {
						t.Errorf("no %q:\n%s", rank, said)
					}
				}
				if n := strings.Count(said, "only ranks with the secret take part"); n != 0 && way.out == "run" || n != 2 && way.out == "secret" {
					t.Errorf("%s: %d ranks have a secret:\n%s", way.out, n, said)
				}
				for _, file := range []string{"weights.safetensors", "final.safetensors"} {
					if !bytes.Equal(read(t, way.out, file), read(t, "alone", file)) {
						t.Errorf("%s/%s is not what one process trains", way.out, file)
					}
				}
			}
		})
	}
}
