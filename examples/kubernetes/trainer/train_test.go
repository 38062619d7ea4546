package trainer

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	trainer "github.com/kubeflow/trainer/v2/pkg/apis/trainer/v1alpha1"
	"sigs.k8s.io/yaml"
)

// decode returns the runtime and the job of a manifest.
func decode(text []byte) (runtime trainer.TrainingRuntime, job trainer.TrainJob, err error) {
	documents := bytes.Split(text, []byte("\n---\n"))
	if len(documents) != 2 {
		return runtime, job, fmt.Errorf("%d documents", len(documents))
	}
	if err := yaml.UnmarshalStrict(documents[0], &runtime); err != nil {
		return runtime, job, err
	}
	return runtime, job, yaml.UnmarshalStrict(documents[1], &job)
}

func TestTrainDecodes(t *testing.T) {
	text, err := os.ReadFile("../train.yaml")
	if err != nil {
		t.Fatal(err)
	}
	runtime, job, err := decode(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ is, want string }{
		{runtime.APIVersion + " " + runtime.Kind, trainer.GroupVersion.String() + " " + trainer.TrainingRuntimeKind},
		{job.APIVersion + " " + job.Kind, trainer.GroupVersion.String() + " " + trainer.TrainJobKind},
		{job.Spec.RuntimeRef.Name, runtime.Name},
		{*job.Spec.RuntimeRef.Kind, runtime.Kind},
		{*job.Spec.RuntimeRef.APIGroup, trainer.GroupVersion.Group},
		{runtime.Spec.Template.Spec.ReplicatedJobs[0].Template.Labels["trainer.kubeflow.org/trainjob-ancestor-step"], "trainer"},
		{runtime.Spec.Template.Spec.ReplicatedJobs[0].Template.Spec.Template.Spec.Containers[0].Name, "node"},
	} {
		if c.is != c.want {
			t.Errorf("%s, want %s", c.is, c.want)
		}
	}
	if runtime.Spec.MLPolicy.Torch == nil || *job.Spec.Trainer.NumProcPerNode != 1 || *job.Spec.Trainer.NumNodes != 2 {
		t.Errorf("%+v, %+v: two pods need PET_*, and one process each", runtime.Spec.MLPolicy, job.Spec.Trainer)
	}

	for _, slip := range [][2]string{{"numProcPerNode: 1", "numProcsPerNode: 1"}, {"torch: {}", "torch: {}\n    pytorch: {}"}, {"numNodes: 2", "numNodes: two"}} {
		changed := strings.Replace(string(text), slip[0], slip[1], 1)
		if _, _, err := decode([]byte(changed)); err == nil || changed == string(text) {
			t.Errorf("%q is taken", slip[1])
		}
	}
}
