package train

import (
	"errors"
	"strings"
	"testing"

	"diskgnn/featurestore"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/train/recipe"
)

func TestValidateNamesTheFlag(t *testing.T) {
	for want, change := range map[string]func(*Options){
		"--pack is missing: name the directory that `diskgnn pack` made, or give --dataset with --samples or --fanout": func(o *Options) { o.Pack = "" },
		"--out is missing: name the directory to make for this run":                                                    func(o *Options) { o.Out = "" },
		"--plateau-factor is for --schedule plateau, not constant":                                                     func(o *Options) { o.Given = []string{"plateau-factor"} },
		"--memory -1: give a positive size":                                                                            func(o *Options) { o.Memory = -1 },
		"--threads -1: give a number from 1 to 4096":                                                                   func(o *Options) { o.Threads = -1 },
		"--gpu-cache 2x: give a share of the rows (10%) or bytes (2GiB)":                                               func(o *Options) { o.GPUCache = &budget.Size{Value: 2, Unit: budget.UnitTimes} },
		"--gpu-memory -1: give a positive size":                                                                        func(o *Options) { o.GPUMemory = -1 },
		"--gpu-memory is for --engine gpu":                                                                             func(o *Options) { o.Engine, o.GPUMemory = EngineCPU, 1<<30 },
		"--gpu-cache is for --engine gpu":                                                                              func(o *Options) { o.Engine, o.GPUCache = EngineNone, percent(10) },
		"--ram-cache 2x: give a share of the rows (10%) or bytes (2GiB)":                                               func(o *Options) { o.RAMCache = &budget.Size{Value: 2, Unit: budget.UnitTimes} },
		"--engine tpu is not one of auto, cpu, gpu, none":                                                              func(o *Options) { o.Engine = "tpu" },
		"--blas mkl is not one of auto, openblas, builtin, gonum":                                                      func(o *Options) { o.BLAS = "mkl" },
	} {
		o := defaults()
		o.Pack, o.Out = "p", "r"
		if err := o.Validate(); err != nil {
			t.Fatal(err)
		}
		change(&o)
		o.EnsureDefaults()
		err := o.Validate()
		if !errors.Is(err, fault.ErrUsage) || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	o := defaults()
	o.Pack, o.Out, o.GPUCache, o.Dropout = "p", "r", new(budget.Size), 0
	if err := o.Validate(); err != nil {
		t.Errorf("no GPU cache and no dropout: %v", err)
	}
}

func TestResolveAsksThePack(t *testing.T) {
	facts := featurestore.Facts{Classes: 2, Metric: recipe.MetricAUC, Train: 6, BatchesPerEpoch: 3, Epochs: 2}
	o := defaults()
	if err := o.resolve(facts, false); err != nil || o.Metric != recipe.MetricAUC {
		t.Errorf("%v, %v", o.Metric, err)
	}
	facts.Classes = 5
	if err := o.resolve(facts, false); !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), "--metric auc") {
		t.Errorf("AUC of five classes: %v", err)
	}
	o = defaults()
	if err := o.resolve(facts, false); err != nil || o.Metric != recipe.MetricAccuracy {
		t.Errorf("%v, %v", o.Metric, err)
	}
	o.Patience = 3
	if err := o.resolve(facts, false); !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), "--patience 3:  has no validation batches") {
		t.Errorf("patience without validation: %v", err)
	}
	facts.Valid = 1
	if err := o.resolve(facts, false); err != nil {
		t.Error(err)
	}
	facts.Train = 7
	if err := o.resolve(facts, false); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("7 batches in 2 epochs of 3: %v", err)
	}
}
