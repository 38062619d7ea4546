package commands

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"diskgnn/train/traintest"
)

func absolute(t *testing.T, path string) string {
	t.Helper()
	p, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestPythonLoaderEqual: the batches of every store are the arrays of the samples, in all splits.
func TestPythonLoaderEqual(t *testing.T) {
	python := numpy(t)
	script, module := absolute(t, "testdata/python/equal.py"), absolute(t, "../python")
	t.Chdir(t.TempDir())
	do(t, "generate --out d --nodes 900 --avg-degree 8 --dim 24 --classes 5 --train-ratio 0.2")
	do(t, "presample --dataset d --out s --batch-size 16 --fanout 3,4 --epochs 2")
	do(t, "generate --out dm --nodes 400 --avg-degree 4 --dim 5 --classes 11 --multi-label --dtype bfloat16 --train-ratio 0.5")
	do(t, "presample --dataset dm --out sm --batch-size 16 --fanout 3,4,2 --epochs 2")
	do(t, "presample --dataset d --out so --batch-size 16 --fanout 3,4 --order dispersed --partitions 6 --buffer 3")
	const rows = `{"dataset": "d", "samples": "s", "ram_cache": "10%", "store": `
	of := map[[2]string][]string{
		{"d", "s"}: {
			`{"dataset": "d", "samples": "s"}`, `{"dataset": "d", "fanout": [3, 4], "batch_size": 16, "ranked": false}`, `{"dataset": "d", "fanout": "3,4", "batch_size": 16, "ranked": false, "store": "gids", "ram_cache": "50%"}`,
			rows + `"rows"}`, rows + `"rows", "cache_policy": "lru"}`, rows + `"ginex"}`, rows + `"gnndrive"}`, rows + `"hyperion"}`, rows + `"mmap", "slots": 1}`,
			`{"dataset": "d", "samples": "s", "ram_cache": "50%", "store": "gids"}`, `{"dataset": "d", "samples": "s", "ram_cache": "95%", "store": "agnes"}`,
		},
		{"dm", "sm"}: {`{"dataset": "dm", "samples": "sm"}`},
		{"d", "so"}:  {`{"dataset": "d", "samples": "so", "store": "marius"}`},
	}
	for i, c := range []struct{ samples, flags, more string }{
		{"s", "--cache 5%", ""},
		{"s", "--cache 5% --compress-chunks zstd", ""},
		{"s", "--cache 5% --policy min", ""},
		{"s", "--cache 5% --dtype bf16 --compress-chunks s2", `, "near": 0.01`},
		{"s", "--cache 5% --dtype int8 --eval-chunks", `, "near": 0.02`},
		{"s", "--cache 5% --dtype int4 --compress-chunks zstd", `, "near": 0.08`},
		{"s", "--cache 0 --bands none --max-disk 6x", `, "slots": 3`},
		{"sm", "--cache 5%", ""},
		{"sm", "--cache 5% --policy min --dtype int8", `, "near": 0.02`},
	} {
		p, d := "p"+strconv.Itoa(i), strings.Replace(c.samples, "s", "d", 1)
		do(t, "pack --dataset "+d+" --samples "+c.samples+" --out "+p+" "+c.flags)
		of[[2]string{d, c.samples}] = append(of[[2]string{d, c.samples}], `{"pack": "`+p+`"`+c.more+`}`)
	}
	for from, loaders := range of {
		for _, split := range []string{"train", "valid", "test"} {
			runPython(t, python, module, append([]string{script, from[0], from[1], split, "2"}, loaders...)...)
		}
	}
}

// TestPythonLoaderTyped: batches of a typed graph have the dataset's sums over every relation, from a pack and without.
func TestPythonLoaderTyped(t *testing.T) {
	python, module, script := traintest.PyTorch(t), absolute(t, "../python"), absolute(t, "testdata/python/typed.py")
	t.Chdir(t.TempDir())
	do(t, "generate --out d --nodes 600 --avg-degree 8 --dim 6 --classes 5 --train-ratio 0.2 --types 3 --featureless 1")
	do(t, "presample --dataset d --out s --batch-size 16 --fanout all,all --epochs 2")
	do(t, "pack --dataset d --samples s --out p --cache 5%")
	do(t, "pack --dataset d --samples s --out m --cache 5% --policy min")
	runPython(t, python, module, script, "d", "s", "p", "m")
}

// TestPythonLoaderDevice: batches on a device are the arrays of the samples, also with rows that the device holds.
func TestPythonLoaderDevice(t *testing.T) {
	python, module := traintest.PyTorch(t), absolute(t, "../python")
	script, more := absolute(t, "testdata/python/equal.py"), absolute(t, "testdata/python/device.py")
	device := cmp.Or(os.Getenv("DISKGNN_TORCH_DEVICE"), "cpu")
	t.Chdir(t.TempDir())
	do(t, "generate --out d --nodes 900 --avg-degree 8 --dim 24 --classes 5 --train-ratio 0.2")
	do(t, "presample --dataset d --out s --batch-size 16 --fanout 3,4 --epochs 2")
	do(t, "generate --out dm --nodes 400 --avg-degree 4 --dim 5 --classes 11 --multi-label --train-ratio 0.5")
	do(t, "presample --dataset dm --out sm --batch-size 16 --fanout 3,4,2 --epochs 2")
	do(t, "pack --dataset d --samples s --out p --cache 5%")
	do(t, "pack --dataset d --samples s --out pb --cache 5% --dtype bf16 --compress-chunks s2")
	do(t, "pack --dataset d --samples s --out pi --cache 5% --dtype int8 --eval-chunks")
	do(t, "pack --dataset d --samples s --out ps --cache 5% --max-disk 6x")
	do(t, "pack --dataset d --samples s --out pm --cache 5% --policy min")
	do(t, "pack --dataset dm --samples sm --out q --cache 5%")
	loader := func(arguments string) string { return `{"device": "` + device + `", ` + arguments + `}` }
	of := map[[2]string][]string{
		{"d", "s"}: {loader(`"dataset": "d", "samples": "s"`), loader(`"pack": "p"`), loader(`"pack": "p", "gpu_cache": "1%"`), loader(`"pack": "p", "gpu_cache": "11%"`),
			loader(`"pack": "p", "gpu_cache": "2%", "ram_cache": "4%"`), loader(`"pack": "p", "gpu_cache": "1TiB", "slots": 1`), loader(`"pack": "ps", "gpu_cache": "20%"`),
			loader(`"pack": "pb", "gpu_cache": "5%", "near": 0.01`), loader(`"pack": "pi", "gpu_cache": "5%", "near": 0.02`), loader(`"pack": "pm"`)},
		{"dm", "sm"}: {loader(`"pack": "q"`), loader(`"pack": "q", "gpu_cache": "4%"`)},
	}
	for from, loaders := range of {
		for _, split := range []string{"train", "valid", "test"} {
			runPython(t, python, module, append([]string{script, from[0], from[1], split, "2"}, loaders...)...)
		}
	}
	runPython(t, python, module, more, device)
}

// loaderTests are functions of testdata/python/loader.py, which has their comments.
var loaderTests = []string{"gone", "position", "caches", "dtypes", "loops", "left", "fork", "worker", "ranks", "shared", "killed", "interrupted", "closes", "wrong", "flips", "kills", "memory", "every"}

// TestPythonLoader runs tests of the package diskgnn for Python on small packs.
func TestPythonLoader(t *testing.T) {
	python, script, module := numpy(t), absolute(t, "testdata/python/loader.py"), absolute(t, "../python")
	t.Chdir(t.TempDir())
	do(t, "generate --out d --nodes 900 --avg-degree 8 --dim 24 --classes 5 --train-ratio 0.2")
	do(t, "presample --dataset d --out s --batch-size 40 --fanout 3,4 --epochs 2")
	do(t, "pack --dataset d --samples s --out p --cache 5%")
	do(t, "pack --dataset d --samples s --out min --cache 5% --policy min")
	do(t, "presample --dataset d --out so --batch-size 40 --fanout 3,4 --order dispersed --partitions 6 --buffer 3")
	do(t, "pack --dataset d --samples s --out z --cache 5% --compress-chunks zstd")
	do(t, "pack --dataset d --samples s --out bf --cache 5% --dtype bf16")
	do(t, "pack --dataset d --samples s --out half --cache 5% --dtype fp16 --policy min")
	do(t, "pack --dataset d --samples s --out q6 --cache 0 --bands none --max-disk 6x --eval-chunks")
	do(t, "generate --out c --nodes 900 --avg-degree 8 --dim 24 --classes 5 --train-ratio 0.2 --compress")
	do(t, "presample --dataset c --out sc --batch-size 40 --fanout 3,4")
	do(t, "presample --dataset d --out s2 --batch-size 40 --fanout 3,4 --seed 5")
	do(t, "pack --dataset d --samples s2 --out q --cache 5%")
	do(t, "generate --out dl --nodes 4000 --dim 512 --classes 5 --train-ratio 0.2")
	do(t, "presample --dataset dl --out sl --batch-size 64 --fanout 3,4")
	do(t, "pack --dataset dl --samples sl --out large --cache 5%")
	command := func(test string) (*exec.Cmd, *bytes.Buffer) {
		var out bytes.Buffer
		cmd := exec.CommandContext(t.Context(), python, script, test)
		cmd.Env, cmd.Stderr = append(os.Environ(), "PYTHONPATH="+module, "PYTHONDONTWRITEBYTECODE=1"), &out
		return cmd, &out
	}
	for _, test := range loaderTests {
		t.Run(test, func(t *testing.T) {
			cmd, errs := command(test)
			out, err := cmd.Output()
			if err != nil {
				t.Errorf("%v: %s", err, errs)
			}
			t.Logf("%s", out)
		})
	}
	// The interrupt of a terminal, which its process group gets, is Python's; the program ends with Python either way.
	for test, blow := range map[string]syscall.Signal{"group": syscall.SIGINT, "murdered": syscall.SIGKILL} {
		t.Run(test, func(t *testing.T) {
			cmd, errs := command(test)
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			pipe, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			out := bufio.NewReader(pipe)
			line, err := out.ReadString('\n')
			if err != nil {
				_ = cmd.Wait()
				t.Fatalf("%v: %s", err, errs)
			}
			pid, err := strconv.Atoi(strings.TrimSpace(line))
			if err != nil {
				t.Fatal(err)
			}
			program, err := unix.PidfdOpen(pid, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(program)
			if err := syscall.Kill(-cmd.Process.Pid, blow); err != nil {
				t.Fatal(err)
			}
			said, _ := out.ReadString('\n')
			err = cmd.Wait()
			if blow == syscall.SIGINT && (err != nil || said != "interrupted\n") {
				t.Errorf("%v, %q: %s", err, said, errs)
			}
			if n, err := unix.Poll([]unix.PollFd{{Fd: int32(program), Events: unix.POLLIN}}, 60_000); n != 1 {
				t.Errorf("the program does not end: %v", err)
			}
		})
	}
}

// TestPythonLoaderModels: PyTorch Geometric's GATv2 and GIN learn through a Loader; GraphSAGE from the weights of a run has
// the losses that train has; tensors are the arrays; DGL's blocks compute the same.
func TestPythonLoaderModels(t *testing.T) {
	python, script, module := traintest.PyTorch(t), absolute(t, "testdata/python/models.py"), absolute(t, "../python")
	t.Chdir(t.TempDir())
	do(t, "generate --out d --nodes 3000 --avg-degree 8 --dim 32 --classes 4 --train-ratio 0.5")
	do(t, "presample --dataset d --out s --batch-size 128 --fanout 5,5 --epochs 3")
	do(t, "pack --dataset d --samples s --out p --cache 10%")
	// One batch is an epoch, so that train tells its loss.
	do(t, "presample --dataset d --out one --batch-size 1500 --fanout 5,5 --epochs 3")
	do(t, "pack --dataset d --samples one --out q --cache 10%")
	do(t, "train --pack q --out a --hidden 16 --epochs 2 --lr 0.01")
	do(t, "train --pack q --out b --hidden 16 --epochs 3 --lr 0.01 --dropout 0 --init-from a")
	const tests = "losses q a/weights.safetensors 3 0.01 + accuracy gatv2 p 0.6 + accuracy gin p 0.55 + tensors p + dtypes p + dgl p + ddp p"
	theirs := strings.Fields(string(runPython(t, python, module, script, tests)))
	t.Log(theirs)
	for i, text := range strings.Split(strings.TrimSpace(string(read(t, "b", "metrics.jsonl"))), "\n") {
		var epoch struct{ Loss float64 }
		if err := json.Unmarshal([]byte(text), &epoch); err != nil {
			t.Fatal(err)
		}
		loss, err := strconv.ParseFloat(theirs[i], 64)
		if near := []float64{1e-5, 1e-4, 1e-4}[i]; err != nil || !(math.Abs(loss-epoch.Loss) <= near) {
			t.Errorf("step %d: %v, train's loss is %v: %v", i, theirs[i], epoch.Loss, err)
		}
		t.Logf("step %d: %v, train %v", i, loss, epoch.Loss)
	}
}
