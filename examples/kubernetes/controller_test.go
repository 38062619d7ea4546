package kubernetes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
)

// ending is how a pod failed.
type ending struct {
	code      int32
	disrupted bool // its condition DisruptionTarget is true
	said      string
}

// action returns what a policy says of a failed pod: that of the first rule which fits, or that
// it counts.
func action(p *batch.PodFailurePolicy, e ending) batch.PodFailurePolicyAction {
	for _, rule := range p.Rules {
		for _, c := range rule.OnPodConditions {
			if c.Type == core.DisruptionTarget && c.Status == core.ConditionTrue && e.disrupted {
				return rule.Action
			}
		}
		if on := rule.OnExitCodes; on != nil {
			in := false
			for _, v := range on.Values {
				in = in || v == e.code
			}
			if in == (on.Operator == batch.PodFailurePolicyOnExitCodesOpIn) {
				return rule.Action
			}
		}
	}
	return batch.PodFailurePolicyActionCount
}

// trouble is what happens to a pod.
type trouble int

const (
	none    trouble = iota
	killed          // SIGKILL, as when memory ends: 137
	evicted         // SIGTERM, and the condition DisruptionTarget
	stopped         // SIGTERM alone
)

// controller runs Indexed Jobs as Kubernetes does: pods that need each other at the same time,
// others one after another.
type controller struct {
	data, config string // what is mounted on /data and /config

	mu     sync.Mutex // over all below
	random *rand.Rand
	// troubles are what remains to happen to pods, in random order, each to one pod.
	troubles []trouble
	struck   map[trouble]int // how often something happened while the program ran
	pods     int
}

// errFailed is a Job that failed.
var errFailed = errors.New("the Job failed")

// run runs a Job until all indices succeeded, or it failed: the next index is any of those that
// remain.
func (c *controller) run(ctx context.Context, name string, spec batch.JobSpec) error {
	var remain []int
	for i := range int(*spec.Completions) {
		remain = append(remain, i)
	}
	failures := make(map[int]int32)
	for len(remain) > 0 {
		at := c.random.IntN(len(remain))
		done, err := c.try(ctx, name, spec, remain[at], failures)
		if err != nil {
			return err
		}
		if done {
			remain = append(remain[:at], remain[at+1:]...)
		}
	}
	return nil
}

// together runs a Job whose pods wait for each other: a pod for every index, and one that fails is
// replaced at once. The first index that fails for good ends all.
func (c *controller) together(ctx context.Context, name string, spec batch.JobSpec) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for index := range int(*spec.Completions) {
		all.Go(func() {
			failures := make(map[int]int32)
			for done := false; !done && ctx.Err() == nil; {
				var err error
				if done, err = c.try(ctx, name, spec, index, failures); err != nil {
					cancel(err)
				}
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// try runs one pod of an index, and reports whether the index is done. An error ends the Job.
func (c *controller) try(ctx context.Context, name string, spec batch.JobSpec, index int, failures map[int]int32) (done bool, err error) {
	limit := spec.BackoffLimitPerIndex
	spare := limit != nil && failures[index] == *limit // one more would rightly fail the Job
	end, ok, err := c.pod(ctx, spec.Template.Spec, index, spare)
	if err != nil || ok {
		return ok, err
	}
	switch action(spec.PodFailurePolicy, end) {
	case batch.PodFailurePolicyActionIgnore:
	case batch.PodFailurePolicyActionCount:
		failures[index]++
		if limit != nil && failures[index] > *limit {
			return false, fmt.Errorf("%w: %s, index %d, after %d failures: %s", errFailed, name, index, failures[index], end.said)
		}
	default: // of the index, of which none may fail, or of the Job
		return false, fmt.Errorf("%w: %s, index %d: code %d: %s", errFailed, name, index, end.code, end.said)
	}
	return false, nil
}

// pod runs the container of a pod, and reports how it failed if it did. Nothing happens to it if it
// is spared.
func (c *controller) pod(ctx context.Context, pod core.PodSpec, index int, spare bool) (ending, bool, error) {
	container := pod.Containers[0]
	args := make([]string, len(container.Command))
	for i, a := range container.Command {
		args[i] = strings.Replace(a, "/config/", c.config+"/", 1)
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = c.data
	cmd.Env = append(os.Environ(), fmt.Sprintf("JOB_COMPLETION_INDEX=%d", index))
	for _, e := range container.Env {
		value := e.Value
		switch from := e.ValueFrom; {
		case from == nil:
		case from.SecretKeyRef != nil:
			value = "0123456789-" + from.SecretKeyRef.Name + "-" + from.SecretKeyRef.Key
		default: // the annotation with the index
			value = fmt.Sprint(index)
		}
		cmd.Env = append(cmd.Env, e.Name+"="+value)
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		return ending{}, false, err
	}
	what, after := c.begins(spare)
	if what != none {
		signal := syscall.SIGTERM
		if what == killed {
			signal = syscall.SIGKILL
		}
		timer := time.AfterFunc(after, func() { cmd.Process.Signal(signal) })
		defer timer.Stop()
	}
	err := cmd.Wait()
	if err == nil {
		return ending{}, true, nil // what would have happened to it happens to another one
	}
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return ending{}, false, err
	}
	end := ending{code: int32(exit.ExitCode()), said: said.String()}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		end.code = 128 + int32(status.Signal())
	}
	if what != none && (end.code == 5 || end.code > 128) {
		c.strikes(what)
		end.disrupted = what == evicted
	}
	return end, false, nil
}

// begins counts a pod, and returns what is to happen to it, and when.
func (c *controller) begins(spare bool) (trouble, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pods++
	n := len(c.troubles)
	if n == 0 || spare || c.random.IntN(4) == 0 {
		return none, 0
	}
	return c.troubles[n-1], time.Duration(c.random.IntN(60)) * time.Millisecond
}

// strikes counts something that happened to a pod.
func (c *controller) strikes(what trouble) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := slices.Index(c.troubles, what); at >= 0 { // else it happened to two
		c.troubles = slices.Delete(c.troubles, at, at+1)
	}
	c.struck[what]++
}

// newController makes the volumes of a cluster, with a graph on one of them.
func newController(t *testing.T, seed uint64, troubles ...trouble) *controller {
	t.Helper()
	c := &controller{data: t.TempDir(), config: t.TempDir(), random: rand.New(rand.NewPCG(seed, 0)), struck: make(map[trouble]int)}
	for name, text := range load[core.ConfigMap](t, "storage.yaml").Data {
		// Less is enough, and takes less time.
		text = strings.NewReplacer("epochs: 20", "epochs: 3\n  hidden: 16", "epochs: 5", "epochs: 2\n  batch-size: 64", "[10, 15, 20]", "[5, 5]", "checkpoint-every: 10m", "checkpoint-every: 20").Replace(text)
		if err := os.WriteFile(filepath.Join(c.config, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	c.random.Shuffle(len(troubles), func(i, j int) { troubles[i], troubles[j] = troubles[j], troubles[i] })
	c.troubles = troubles
	return c
}
