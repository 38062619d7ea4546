package train

import (
	"errors"
	"strings"
	"testing"

	"diskgnn/featurestore"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
)

func TestValidateNamesTheFlag(t *testing.T) {
	for want, change := range map[string]func(*Options){
		"--pack is missing":                func(o *Options) { o.Pack = "" },
		"--out is missing":                 func(o *Options) { o.Out = "" },
		"--heads 3: a hidden width":        func(o *Options) { o.Model, o.Heads = "gat", 3 },
		"--heads -1: give":                 func(o *Options) { o.Heads = -1 },
		"--model mlp: there are sage, gcn": func(o *Options) { o.Model = "mlp" },
		"--norm group: there are none":     func(o *Options) { o.Norm = "group" },
		"--activation tanh: there are":     func(o *Options) { o.Activation = "tanh" },
		"--aggregator lstm: there are":     func(o *Options) { o.Aggregator = "lstm" },
		"--aggregator sum is for --model":  func(o *Options) { o.Model, o.Aggregator = "gcn", "sum" },
		"--gcn-norm left: there are":       func(o *Options) { o.GCNNorm = "left" },
		"--gcn-norm block is for --model":  func(o *Options) { o.GCNNorm = "block" },
		"--layer-order multiply: --aggreg": func(o *Options) { o.Aggregator, o.LayerOrder = "max", "multiply" },
		"--optimizer sgd: there are adam":  func(o *Options) { o.Optimizer = "sgd" },
		"--weight-decay -1:":               func(o *Options) { o.WeightDecay = -1 },
		"--label-smoothing 1:":             func(o *Options) { o.LabelSmoothing = 1 },
		"--schedule step: there are const": func(o *Options) { o.Schedule = "step" },
		"--warmup 11: give a number from":  func(o *Options) { o.Warmup = 11 },
		"--min-lr 0.1: give a rate from":   func(o *Options) { o.Schedule, o.MinLR = "cosine", 0.1 },
		"--min-lr is for --schedule cos":   func(o *Options) { o.MinLR = 0.001 },
		"--plateau-factor 1: give":         func(o *Options) { o.PlateauFactor = 1 },
		"--plateau-factor is for --sched":  func(o *Options) { o.Given = []string{"plateau-factor"} },
		"--plateau-patience -1: give":      func(o *Options) { o.PlateauPatience = -1 },
		"--patience -1: give":              func(o *Options) { o.Patience = -1 },
		"--validate-every -1: give":        func(o *Options) { o.ValidateEvery = -1 },
		"--loss hinge: there are auto":     func(o *Options) { o.Loss = "hinge" },
		"--hidden -1":                      func(o *Options) { o.Hidden = -1 },
		"--epochs -1":                      func(o *Options) { o.Epochs = -1 },
		"--epochs 2147483648":              func(o *Options) { o.Epochs = 1 << 31 },
		"--hidden 33554432":                func(o *Options) { o.Hidden = 1 << 25 },
		"--lr -0.1":                        func(o *Options) { o.LR = -0.1 },
		"--dropout 1:":                     func(o *Options) { o.Dropout = 1 },
		"--dropout -0.5":                   func(o *Options) { o.Dropout = -0.5 },
		"--dropout 0.99999999999: a rate":  func(o *Options) { o.Dropout = 0.99999999999 },
		"--metric mrr: there are auto":     func(o *Options) { o.Metric = "mrr" },
		"--layer-order sum":                func(o *Options) { o.LayerOrder = "sum" },
		"--memory -1":                      func(o *Options) { o.Memory = -1 },
		"--threads -1":                     func(o *Options) { o.Threads = -1 },
		"--gpu-cache 2x: give a share":     func(o *Options) { o.GPUCache = &budget.Size{Value: 2, Unit: budget.UnitTimes} },
		"--gpu-memory -1":                  func(o *Options) { o.GPUMemory = -1 },
		"--gpu-memory is for --engine gpu": func(o *Options) { o.Engine, o.GPUMemory = EngineCPU, 1<<30 },
		"--gpu-cache is for --engine gpu":  func(o *Options) { o.Engine, o.GPUCache = EngineNone, percent(10) },
		"--ram-cache 2x: give a share":     func(o *Options) { o.RAMCache = &budget.Size{Value: 2, Unit: budget.UnitTimes} },
		"--precision half: there are fl":   func(o *Options) { o.Precision = "half" },
		"--engine tpu: there are auto, cp": func(o *Options) { o.Engine = "tpu" },
		"--blas mkl: there are auto":       func(o *Options) { o.BLAS = "mkl" },
	} {
		o := Defaults()
		o.Pack, o.Out = "p", "r"
		if err := o.Validate(); err != nil {
			t.Fatal(err)
		}
		change(&o)
		o.EnsureDefaults()
		err := o.Validate()
		if !errors.Is(err, fault.ErrUsage) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s…", err, want)
		}
	}
	o := Defaults()
	o.Pack, o.Out, o.GPUCache, o.Dropout = "p", "r", new(budget.Size), 0
	if err := o.Validate(); err != nil {
		t.Errorf("no GPU cache and no dropout: %v", err)
	}
}

func TestResolveAsksThePack(t *testing.T) {
	facts := featurestore.Facts{Classes: 2, Metric: MetricAUC, Train: 6, BatchesPerEpoch: 3, Epochs: 2}
	o := Defaults()
	if err := o.resolve(facts, false); err != nil || o.Metric != MetricAUC {
		t.Errorf("%v, %v", o.Metric, err)
	}
	facts.Classes = 5
	if err := o.resolve(facts, false); !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), "--metric auc") {
		t.Errorf("AUC of five classes: %v", err)
	}
	o = Defaults()
	if err := o.resolve(facts, false); err != nil || o.Metric != MetricAccuracy {
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

func TestNetworkHasALayerPerFanout(t *testing.T) {
	o := Defaults()
	o.Hidden, o.LayerOrder = 16, "multiply"
	m := o.network(featurestore.Facts{Dim: 7, Classes: 3, Fanout: []int{4, 5, 6}})
	if err := m.Validate(); err != nil {
		t.Fatal(err)
	}
	if m.InputProjection != 0 || m.Aggregator != "mean" || m.GCNNorm != "" {
		t.Errorf("%+v", m)
	}
	o.Model, o.InputProjection, o.Residual, o.Norm = "gcn", true, true, "batch"
	if g := o.network(featurestore.Facts{Dim: 7, Classes: 3, Fanout: []int{4, 5, 6}}); g.Validate() != nil || g.InputProjection != 16 || !g.Residual || g.Norm != "batch" {
		t.Errorf("%+v: %v", g, g.Validate())
	}
	if len(m.Dims) != 4 || m.Dims[0] != 7 || m.Dims[1] != 16 || m.Dims[2] != 16 || m.Dims[3] != 3 || len(m.Orders) != 3 || m.Order(2) != "multiply" {
		t.Errorf("%+v", m)
	}
}
