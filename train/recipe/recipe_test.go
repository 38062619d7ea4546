package recipe

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"diskgnn/internal/fault"
)

func TestValidateNamesTheFlag(t *testing.T) {
	for want, change := range map[string]func(*Recipe){
		"--heads 3: --hidden 256 is not a multiple of it":                                            func(o *Recipe) { o.Model, o.Heads = "gat", 3 },
		"--heads -1: give a number from 1 to 1024":                                                   func(o *Recipe) { o.Heads = -1 },
		"--model mlp is not one of sage, gcn, gat, rsage, rgcn, rgat":                                func(o *Recipe) { o.Model = "mlp" },
		"--norm group is not one of none, batch, layer":                                              func(o *Recipe) { o.Norm = "group" },
		"--activation tanh is not one of auto, relu, elu":                                            func(o *Recipe) { o.Activation = "tanh" },
		"--aggregator lstm is not one of mean, sum, max":                                             func(o *Recipe) { o.Aggregator = "lstm" },
		"--aggregator sum is for --model sage, not gcn":                                              func(o *Recipe) { o.Model, o.Aggregator = "gcn", "sum" },
		"--gcn-norm left is not one of graph, block":                                                 func(o *Recipe) { o.GCNNorm = "left" },
		"--gcn-norm block is for --model gcn, not sage":                                              func(o *Recipe) { o.GCNNorm = "block" },
		"--bases 2 is for --model rgcn, not rsage":                                                   func(o *Recipe) { o.Model, o.Bases = "rsage", 2 },
		"--bases 1025: give a number from 0 to 1024":                                                 func(o *Recipe) { o.Model, o.Bases = "rgcn", 1025 },
		"--norm batch: rsage has no norm":                                                            func(o *Recipe) { o.Model, o.Norm = "rsage", "batch" },
		"--residual: rgcn has none":                                                                  func(o *Recipe) { o.Model, o.Residual = "rgcn", true },
		"--input-projection: rgcn has none":                                                          func(o *Recipe) { o.Model, o.InputProjection = "rgcn", true },
		"--layer-order aggregate: rgcn has one order of operations":                                  func(o *Recipe) { o.Model, o.LayerOrder = "rgcn", "aggregate" },
		"--layer-order multiply: --aggregator max must aggregate first":                              func(o *Recipe) { o.Aggregator, o.LayerOrder = "max", "multiply" },
		"--optimizer sgd is not one of adam, adamw":                                                  func(o *Recipe) { o.Optimizer = "sgd" },
		"--weight-decay -1: give a number from 0 up, below a million":                                func(o *Recipe) { o.WeightDecay = -1 },
		"--label-smoothing 1: give a share from 0 up to, not including, 1":                           func(o *Recipe) { o.LabelSmoothing = 1 },
		"--schedule step is not one of constant, cosine, plateau":                                    func(o *Recipe) { o.Schedule = "step" },
		"--warmup 11: give a number from 0 to --epochs, 10":                                          func(o *Recipe) { o.Warmup = 11 },
		"--min-lr 0.1: give a rate from 0 to --lr, 0.003":                                            func(o *Recipe) { o.Schedule, o.MinLR = "cosine", 0.1 },
		"--min-lr is for --schedule cosine and plateau, not constant":                                func(o *Recipe) { o.MinLR = 0.001 },
		"--plateau-factor 1: give a factor above 0 and below 1":                                      func(o *Recipe) { o.PlateauFactor = 1 },
		"--plateau-patience -1: give a number from 0 up":                                             func(o *Recipe) { o.PlateauPatience = -1 },
		"--patience -1: give a number from 0 up":                                                     func(o *Recipe) { o.Patience = -1 },
		"--validate-every -1: give a number of epochs from 1 up":                                     func(o *Recipe) { o.ValidateEvery = -1 },
		"--loss hinge is not one of auto, cross-entropy, binary":                                     func(o *Recipe) { o.Loss = "hinge" },
		"--hidden -1: give a width from 1 to 16777216":                                               func(o *Recipe) { o.Hidden = -1 },
		"--epochs -1: give a number from 1 to 1048576":                                               func(o *Recipe) { o.Epochs = -1 },
		"--epochs 2147483648: give a number from 1 to 1048576":                                       func(o *Recipe) { o.Epochs = 1 << 31 },
		"--hidden 33554432: give a width from 1 to 16777216":                                         func(o *Recipe) { o.Hidden = 1 << 25 },
		"--lr -0.1: give a learning rate above 0 and below a million":                                func(o *Recipe) { o.LR = -0.1 },
		"--dropout 1: a rate of dropout must lie from 0 to 1 − 2⁻³², about 0.9999999997":             func(o *Recipe) { o.Dropout = 1 },
		"--dropout -0.5: a rate of dropout must lie from 0 to 1 − 2⁻³², about 0.9999999997":          func(o *Recipe) { o.Dropout = -0.5 },
		"--dropout 0.99999999999: a rate of dropout must lie from 0 to 1 − 2⁻³², about 0.9999999997": func(o *Recipe) { o.Dropout = 0.99999999999 },
		"--metric mrr is not one of auto, accuracy, auc, f1":                                         func(o *Recipe) { o.Metric = "mrr" },
		"--layer-order sum is not one of auto, aggregate, multiply":                                  func(o *Recipe) { o.LayerOrder = "sum" },
		"--precision half is not one of float32, tf32, bf16":                                         func(o *Recipe) { o.Precision = "half" },
		"--dry-epochs some: give a number of epochs above 0, all or auto":                            func(o *Recipe) { o.Fanout, o.DryEpochs = "5", "some" },
		"--dry-epochs 0: give a number of epochs above 0, all or auto":                               func(o *Recipe) { o.Fanout, o.DryEpochs = "5", "0" },
		"--dry-epochs Inf: give a number of epochs above 0, all or auto":                             func(o *Recipe) { o.Fanout, o.DryEpochs = "5", "Inf" },
		"--dry-epochs is for batches that are drawn while training, by --fanout":                     func(o *Recipe) { o.DryEpochs = "all" },
		"--batch-size is for batches that are drawn while training, by --fanout":                     func(o *Recipe) { o.BatchSize = 5 },
		"--eval-fanout is for batches that are drawn while training, by --fanout":                    func(o *Recipe) { o.EvalFanout = "same" },
		"--train-ratio is for batches that are drawn while training, by --fanout":                    func(o *Recipe) { o.TrainRatio = 1 },
		"--sampler is for batches that are drawn while training, by --fanout":                        func(o *Recipe) { o.Sampler = "labor" },
		"--batch-dependency is for batches that are drawn while training, by --fanout":               func(o *Recipe) { o.BatchDependency = 2 },
		"--layer-dependency is for batches that are drawn while training, by --fanout":               func(o *Recipe) { o.LayerDependency = true },
		"--sample-seed is for batches that are drawn while training, by --fanout":                    func(o *Recipe) { o.SampleSeed = 1 },
	} {
		o := Defaults()
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
	o := Defaults()
	o.Dropout = 0
	if err := o.Validate(); err != nil {
		t.Errorf("no dropout: %v", err)
	}
}

func TestResolveByTheData(t *testing.T) {
	for what, c := range map[string]struct {
		data         Data
		change       func(*Recipe)
		loss, metric string
		refused      string
	}{
		"two classes, by AUC":  {data: Data{Classes: 2, Metric: MetricAUC}, loss: LossCrossEntropy, metric: MetricAUC},
		"five classes, by AUC": {data: Data{Classes: 5, Metric: MetricAUC}, loss: LossCrossEntropy, metric: MetricAccuracy},
		"any number":           {data: Data{Classes: 5, MultiLabel: true}, loss: LossBinary, metric: MetricF1},
		"any number, by AUC":   {data: Data{Classes: 5, MultiLabel: true, Metric: MetricAUC}, loss: LossBinary, metric: MetricAUC},
		"chosen":               {data: Data{Classes: 2, Metric: MetricAUC}, change: func(r *Recipe) { r.Loss, r.Metric = LossBinary, MetricF1 }, loss: LossBinary, metric: MetricF1},
		"AUC of five":          {data: Data{Classes: 5}, change: func(r *Recipe) { r.Metric = MetricAUC }, refused: "--metric auc needs two classes, but data has 5"},
		"one of any number":    {data: Data{Classes: 5, MultiLabel: true}, change: func(r *Recipe) { r.Loss = LossCrossEntropy }, refused: "--loss cross-entropy needs one class per node, but"},
		"smooth binary":        {data: Data{Classes: 5, MultiLabel: true}, change: func(r *Recipe) { r.LabelSmoothing = 0.1 }, refused: "--label-smoothing 0.1 is for"},
	} {
		r := Defaults()
		if c.change != nil {
			c.change(&r)
		}
		c.data.Name, c.data.Layers = "data", 2
		err := r.Resolve(c.data)
		if c.refused != "" {
			if !errors.Is(err, fault.ErrUsage) || !strings.HasPrefix(err.Error(), c.refused) {
				t.Errorf("%s: %v", what, err)
			}
		} else if err != nil || r.Loss != c.loss || r.Metric != c.metric {
			t.Errorf("%s: %s, %s, %v", what, r.Loss, r.Metric, err)
		}
	}
}

func TestNetworkHasALayerPerFanout(t *testing.T) {
	o := Defaults()
	o.Hidden, o.LayerOrder = 16, "multiply"
	data := Data{Dim: 7, Classes: 3, Layers: 3}
	if err := o.Resolve(data); err != nil {
		t.Fatal(err)
	}
	m := o.Network()
	if err := m.Validate(); err != nil {
		t.Fatal(err)
	}
	if m.InputProjection != 0 || m.Aggregator != "mean" || m.GCNNorm != "" {
		t.Errorf("%+v", m)
	}
	o.Model, o.InputProjection, o.Residual, o.Norm = "gcn", true, true, "batch"
	if g := o.Network(); g.Validate() != nil || g.InputProjection != 16 || !g.Residual || g.Norm != "batch" {
		t.Errorf("%+v: %v", g, g.Validate())
	}
	if len(m.Dims) != 4 || m.Dims[0] != 7 || m.Dims[1] != 16 || m.Dims[2] != 16 || m.Dims[3] != 3 || len(m.Orders) != 3 || m.Order(2) != "multiply" {
		t.Errorf("%+v", m)
	}
}

// Drawing while training has defaults of its own, and none of them where nothing is drawn.
func TestSamplingDefaults(t *testing.T) {
	r := Defaults()
	if r.Live() || r.EvalFanout != "" || r.BatchSize != 0 || r.TrainRatio != 0 || r.Sampler != "" || r.BatchDependency != 0 || r.DryEpochs != "" {
		t.Errorf("%+v", r)
	}
	r.Fanout = "10,all"
	r.EnsureDefaults()
	if err := r.Validate(); err != nil || !r.Live() || r.EvalFanout != "same" || r.BatchSize != 1024 || r.TrainRatio != 1 || r.Sampler != "uniform" || r.BatchDependency != 1 || r.DryEpochs != "auto" {
		t.Errorf("%+v, %v", r, err)
	}
	for _, c := range []struct {
		dry        string
		projection bool
		want       float64
	}{{"auto", false, 1}, {"auto", true, math.Inf(1)}, {"all", false, math.Inf(1)}, {"0.5", true, 0.5}, {"3", false, 3}} {
		r.DryEpochs, r.InputProjection = c.dry, c.projection
		if got := r.Dry(); got != c.want || r.Validate() != nil {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// other returns a recipe that differs from the defaults in every option.
func other() Recipe {
	r := Defaults()
	v := reflect.ValueOf(&r).Elem()
	eachOption(func(_ string, i int) {
		switch f := v.Field(i); f.Kind() {
		case reflect.String:
			f.SetString("other")
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Int:
			f.SetInt(77)
		case reflect.Uint64:
			f.SetUint(77)
		case reflect.Float64:
			f.SetFloat(0.77)
		}
	})
	return r
}

// Every field is an option with one row, and every row has a field.
func TestEveryOptionHasARow(t *testing.T) {
	var rows []string
	for _, o := range slices.Concat(always, Drawing) {
		rows = append(rows, o.Name)
	}
	if want := slices.Sorted(slices.Values(Flags())); !slices.Equal(slices.Sorted(slices.Values(rows)), want) {
		t.Errorf("rows of %v, fields of %v", rows, want)
	}
}

func TestRecallTakesEveryOption(t *testing.T) {
	was, now := other(), Defaults()
	if d := now.Recall(&was, nil); d != nil || !reflect.DeepEqual(now, was) {
		t.Errorf("recalled %+v, want %+v; %v", now, was, d)
	}
	now = Defaults()
	d := now.Recall(&was, Flags())
	if len(d) != len(Flags())-2 { // auto stands for what loss and metric came to
		t.Errorf("%d of %d options differ: %v", len(d), len(Flags()), d)
	}
	now = Defaults()
	now.LabelSmoothing = 0.25
	d = now.Recall(&was, []string{"label-smoothing", "threads"})
	if len(d) != 1 || d[0].String() != "--label-smoothing 0.25 was given, but the run has 0.77" || now.Model != "other" {
		t.Errorf("%v", d)
	}
	now = Defaults()
	if d := now.Recall(new(Recipe), []string{"schedule", "precision"}); d != nil || !reflect.DeepEqual(now.Difference(new(Recipe))[0], Difference{"model", "sage", ""}) {
		t.Errorf("of an earlier version's: %v", d)
	}
}

// The JSON is hashed into checkpoints: neither names nor their order may change.
func TestJSONStaysAsItWas(t *testing.T) {
	b, err := json.Marshal(Recipe{})
	want := `{"model":"","hidden":0,"dims":null,"epochs":0,"lr":0,"dropout":0,"metric":"","layer_order":"","seed":0,"shuffle_batches":false,` +
		`"heads":0,"norm":"","residual":false,"input_projection":false,"activation":"","aggregator":"","gcn_norm":"",` +
		`"optimizer":"","weight_decay":0,"label_smoothing":0,"loss":"",` +
		`"schedule":"","warmup":0,"min_lr":0,"plateau_factor":0,"plateau_patience":0,"patience":0,"validate_every":0}`
	if err != nil || string(b) != want {
		t.Errorf("%s, %v", b, err)
	}
}
