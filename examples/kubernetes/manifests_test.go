package kubernetes

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	"sigs.k8s.io/yaml"
)

// kinds are the types that the manifests have.
var kinds = map[string]func() any{
	"v1 PersistentVolumeClaim":                      func() any { return new(core.PersistentVolumeClaim) },
	"v1 ConfigMap":                                  func() any { return new(core.ConfigMap) },
	"batch/v1 Job":                                  func() any { return new(batch.Job) },
	"jobset.x-k8s.io/v1alpha2 JobSet":               func() any { return new(jobset.JobSet) },
	"trainer.kubeflow.org/v1alpha1 TrainingRuntime": func() any { return new(trainingRuntime) },
	"trainer.kubeflow.org/v1alpha1 TrainJob":        func() any { return new(trainJob) },
}

// trainingRuntime and trainJob are what is run here of the types of Kubeflow Trainer. The module
// beside this one decodes them strictly: they are made for an older Kubernetes, and one program
// cannot have both.
type (
	trainingRuntime struct {
		meta.ObjectMeta `json:"metadata"`
		Spec            struct {
			Template struct{ Spec jobset.JobSetSpec }
		}
	}
	trainJob struct {
		meta.ObjectMeta `json:"metadata"`
		Spec            struct {
			RuntimeRef struct{ Name, Kind string }
			Trainer    struct {
				NumNodes, NumProcPerNode int32
				Command                  []string
			}
		}
	}
)

// decode returns the documents of a manifest. A field that a type does not have, one that is
// there twice, or a value of another type is an error.
func decode(file string) ([]any, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var all []any
	for i, document := range bytes.Split(text, []byte("\n---\n")) {
		var is struct{ APIVersion, Kind string }
		if err := yaml.Unmarshal(document, &is); err != nil {
			return nil, fmt.Errorf("%s, document %d: %w", file, i, err)
		}
		make, ok := kinds[is.APIVersion+" "+is.Kind]
		if !ok {
			return nil, fmt.Errorf("%s, document %d: %s %s is no kind that is known here", file, i, is.APIVersion, is.Kind)
		}
		object := make()
		strictly := yaml.UnmarshalStrict
		if strings.HasPrefix(is.APIVersion, "trainer.") {
			strictly = yaml.Unmarshal
		}
		if err := strictly(document, object); err != nil {
			return nil, fmt.Errorf("%s, %s: %w", file, is.Kind, err)
		}
		all = append(all, object)
	}
	return all, nil
}

// load decodes a manifest that is there for one object of a type.
func load[T any](t *testing.T, file string) *T {
	t.Helper()
	all, err := decode(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range all {
		if object, ok := o.(*T); ok {
			return object
		}
	}
	t.Fatalf("%s has no %T", file, *new(T))
	return nil
}

func TestManifestsDecode(t *testing.T) {
	files, err := filepath.Glob("*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]int)
	for _, file := range files {
		all, err := decode(file)
		if err != nil {
			t.Error(err)
		}
		for _, o := range all {
			found[fmt.Sprintf("%T", o)]++
		}
	}
	want := map[string]int{
		"*v1.PersistentVolumeClaim": 1, "*v1.ConfigMap": 1, "*v1.Job": 2, "*v1alpha2.JobSet": 1, "*kubernetes.trainingRuntime": 1, "*kubernetes.trainJob": 1,
	}
	if fmt.Sprint(found) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", found, want)
	}
}

// TestDecodeIsStrict: a slip in a manifest is found.
func TestDecodeIsStrict(t *testing.T) {
	text, err := os.ReadFile("presample.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, slip := range [][2]string{
		{"backoffLimitPerIndex: 3", "backoffLimitPerIndexes: 3"},
		{"completions: 4", `completions: "four"`},
		{"parallelism: 4", "completions: 4"},
		{"kind: Job", "kind: Jobs"},
		{"mountPath: /data}", "mountpoint: /data}"},
	} {
		file := filepath.Join(t.TempDir(), "slip.yaml")
		changed := strings.Replace(string(text), slip[0], slip[1], 1)
		if changed == string(text) {
			t.Fatalf("no %q in it", slip[0])
		}
		if err := os.WriteFile(file, []byte(changed), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := decode(file); err == nil {
			t.Errorf("%q is taken", slip[1])
		}
	}
}

// jobs returns all Jobs that the manifests lead to, by name.
func jobs(t *testing.T) map[string]batch.JobSpec {
	all := map[string]batch.JobSpec{
		"presample.yaml": load[batch.Job](t, "presample.yaml").Spec,
		"pack.yaml":      load[batch.Job](t, "pack.yaml").Spec,
	}
	for _, r := range load[jobset.JobSet](t, "pipeline.yaml").Spec.ReplicatedJobs {
		all["pipeline.yaml "+r.Name] = r.Template.Spec
	}
	all["train.yaml"] = ofTrainJob(t)
	return all
}

// ofTrainJob lays the trainer of the TrainJob over the runtime's Job, as the Trainer does.
func ofTrainJob(t *testing.T) batch.JobSpec {
	t.Helper()
	runtime, job := load[trainingRuntime](t, "train.yaml"), load[trainJob](t, "train.yaml")
	if job.Spec.RuntimeRef.Name != runtime.Name || job.Spec.RuntimeRef.Kind != "TrainingRuntime" {
		t.Errorf("the TrainJob is of the runtime %s", job.Spec.RuntimeRef.Name)
	}
	spec := *runtime.Spec.Template.Spec.ReplicatedJobs[0].Template.Spec.DeepCopy()
	spec.Completions, spec.Parallelism = &job.Spec.Trainer.NumNodes, &job.Spec.Trainer.NumNodes
	mode := batch.IndexedCompletion
	spec.CompletionMode = &mode
	c := &spec.Template.Spec.Containers[0]
	c.Command = job.Spec.Trainer.Command
	if job.Spec.Trainer.NumProcPerNode != 1 {
		t.Errorf("%d processes a pod, which nothing starts", job.Spec.Trainer.NumProcPerNode)
	}
	c.Env = append(c.Env,
		core.EnvVar{Name: "PET_NNODES", Value: fmt.Sprint(job.Spec.Trainer.NumNodes)},
		core.EnvVar{Name: "PET_NPROC_PER_NODE", Value: fmt.Sprint(job.Spec.Trainer.NumProcPerNode)},
		core.EnvVar{Name: "PET_NODE_RANK", ValueFrom: &core.EnvVarSource{FieldRef: &core.ObjectFieldSelector{FieldPath: "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}},
		// Names of pods mean nothing here: all run on this host.
		core.EnvVar{Name: "PET_MASTER_ADDR", Value: "127.0.0.1"},
		core.EnvVar{Name: "PET_MASTER_PORT", Value: freePort(t)},
	)
	return spec
}

// freePort returns a port that nobody listened on a moment ago.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// TestJobsAreSound: what an API server checks beyond types, and what the program relies on.
func TestJobsAreSound(t *testing.T) {
	config := load[core.ConfigMap](t, "storage.yaml")
	claim := load[core.PersistentVolumeClaim](t, "storage.yaml")
	for name, spec := range jobs(t) {
		pod := spec.Template.Spec
		if spec.PodFailurePolicy == nil || pod.RestartPolicy != core.RestartPolicyNever {
			t.Errorf("%s: a policy of failures goes with restartPolicy Never", name)
		}
		if spec.CompletionMode == nil || *spec.CompletionMode != batch.IndexedCompletion || *spec.Completions != *spec.Parallelism {
			t.Errorf("%s: %v of %v, %v", name, spec.CompletionMode, spec.Completions, spec.Parallelism)
		}
		if len(pod.Containers) != 1 {
			t.Fatalf("%s: %d containers", name, len(pod.Containers))
		}
		c := pod.Containers[0]
		for i, word := range c.Command {
			if word != "--shard" && word != "--rank" {
				continue
			}
			want := fmt.Sprintf("auto/%d", *spec.Completions)
			if slices.ContainsFunc(c.Env, func(e core.EnvVar) bool { return e.Name == "PET_NNODES" }) {
				want = "auto" // the Trainer says how many there are
			}
			if c.Command[i+1] != want {
				t.Errorf("%s: %d pods, %s %s, want %s", name, *spec.Completions, word, c.Command[i+1], want)
			}
		}
		secret := slices.ContainsFunc(c.Env, func(e core.EnvVar) bool {
			return e.Name == "DISKGNN_SECRET" && e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil && e.ValueFrom.SecretKeyRef.Optional == nil
		})
		if ranks := *spec.Completions > 1 && slices.Contains(c.Command, "--rank"); ranks != secret {
			t.Errorf("%s: ranks on several nodes: %t; a secret: %t", name, ranks, secret)
		}
		if *spec.Completions > 1 && !slices.Contains(c.Command, "--shard") && !slices.Contains(c.Command, "--rank") {
			t.Errorf("%s: %d pods do the same", name, *spec.Completions)
		}
		var mounted []string
		for _, m := range c.VolumeMounts {
			for _, v := range pod.Volumes {
				switch {
				case v.Name != m.Name:
				case v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim.Name,
					v.ConfigMap != nil && v.ConfigMap.Name == config.Name:
					mounted = append(mounted, m.MountPath)
				}
			}
		}
		if !slices.Equal(mounted, []string{"/data", "/config"}) || c.WorkingDir != "/data" {
			t.Errorf("%s: mounts %v, works in %s", name, mounted, c.WorkingDir)
		}
	}
}

// TestDeathsAreAborts: in every pod a program that the Go runtime ends can abort. As process 1 it
// could not; and before it has begun, only the environment tells the runtime to.
func TestDeathsAreAborts(t *testing.T) {
	for name, spec := range jobs(t) {
		pod := spec.Template.Spec
		if share := pod.ShareProcessNamespace; share == nil || !*share {
			t.Errorf("%s: the program is process 1", name)
		}
		for _, c := range pod.Containers {
			if !slices.Contains(c.Env, core.EnvVar{Name: "GOTRACEBACK", Value: "crash"}) {
				t.Errorf("%s: %s: environment %v", name, c.Name, c.Env)
			}
		}
	}
}

// TestExitCodes: the rules give every exit code of docs/cli.md the action that it should have.
func TestExitCodes(t *testing.T) {
	for name, spec := range jobs(t) {
		hopeless := batch.PodFailurePolicyActionFailIndex
		if spec.BackoffLimitPerIndex == nil {
			hopeless = batch.PodFailurePolicyActionFailJob
		}
		for _, c := range []struct {
			end  ending
			want batch.PodFailurePolicyAction
		}{
			{ending{code: 1}, batch.PodFailurePolicyActionCount},
			{ending{code: 2}, hopeless},
			{ending{code: 3}, hopeless},
			{ending{code: 4}, batch.PodFailurePolicyActionCount},
			{ending{code: 5}, batch.PodFailurePolicyActionIgnore},
			{ending{code: 6}, batch.PodFailurePolicyActionCount},
			{ending{code: 134}, batch.PodFailurePolicyActionCount},
			{ending{code: 137}, batch.PodFailurePolicyActionCount},
			{ending{code: 137, disrupted: true}, batch.PodFailurePolicyActionIgnore},
			{ending{code: 5, disrupted: true}, batch.PodFailurePolicyActionIgnore},
		} {
			if got := action(spec.PodFailurePolicy, c.end); got != c.want {
				t.Errorf("%s: %+v: %s, want %s", name, c.end, got, c.want)
			}
		}
	}
}
