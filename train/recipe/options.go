package recipe

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"diskgnn/internal/fault"
	"diskgnn/train/model"
)

// An Option is a row of the recipe: an option's name, meaning, default and permitted values. The
// command line makes a flag of it. The option's key in run.json, and so its field of Recipe, is its
// name with underscores.
type Option struct {
	Name string // of the flag
	Help string
	// Takes is the help's word for the value; "": the word for values of its type.
	Takes string
	// Shown is the help's text for the default; "": Default.
	Shown string
	// Default replaces zero in EnsureDefaults; nil: zero stays. Where Zero is set, zero is a value
	// too, and only Defaults sets the option.
	Default any
	Zero    bool
	Names   []string // that the option may be; nil: it is not chosen from a list
	// Least and Most bound a whole number on the command line; Most 0: no bound.
	Least, Most int64
	// Positive restricts the command line to numbers above 0.
	Positive bool

	allows func(x float64) bool // of a number; nil: other checks decide
	give   string               // describes the values that allows permits, for an error
}

// Options are the rows, by subject, in the order of the help.
type Options []Option

// Model are the options of the network.
var Model = Options{
	{Name: "model", Help: "model: " + strings.Join(namesOf(model.Kinds()...), ", ") + "; gcn adds a self-loop at every node to the stored ones, gat replaces them by one; rsage, rgcn and rgat are for graphs with node types", Default: string(model.Kinds()[0]), Names: namesOf(model.Kinds()...)},
	{Name: "hidden", Help: "width of the hidden layers", Default: 256, Least: 1, allows: closed(1, maxHidden), give: fmt.Sprintf("a width from 1 to %d", maxHidden)},
	{Name: "heads", Help: "heads of gat and rgat; they divide the hidden width", Default: 8, Least: 1, allows: closed(1, model.MaxHeads), give: fmt.Sprintf("a number from 1 to %d", model.MaxHeads)},
	{Name: "bases", Help: "matrices that rgcn combines into the weights of every relation; 0: each relation has its own", allows: closed(0, model.MaxBases), give: fmt.Sprintf("a number from 0 to %d", model.MaxBases)},
	{Name: "aggregator", Help: "aggregation of the neighbours in sage: mean, sum or max", Default: string(model.Mean), Names: namesOf(model.Aggregators...)},
	{Name: "gcn-norm", Help: "degrees that weigh gcn's edges: of the graph, or of the block", Default: string(model.GraphNorm), Names: namesOf(model.GCNNorms...)},
	{Name: "norm", Help: "normalisation ahead of each activation: batch, layer, or none", Default: string(model.NoNorm), Names: namesOf(model.Norms...)},
	{Name: "residual", Help: "add a linear map of a layer's input to its output"},
	{Name: "input-projection", Help: "map the features to the hidden width first"},
	{Name: "activation", Help: "after every layer but the last: relu, elu, or auto: elu for gat and rgat, else relu", Default: ActivationAuto,
		Names: append([]string{ActivationAuto}, namesOf(model.Activations...)...)},
	{Name: "dropout", Help: "rate after every layer but the last", Default: 0.5, Zero: true},
	{Name: "layer-order", Help: "first operation of a layer: aggregate, multiply, or auto: the cheaper one", Default: string(model.Auto),
		Names: namesOf(model.Auto, model.Aggregate, model.Multiply)},
}

// Learning are the options of the steps and of the metric.
var Learning = Options{
	{Name: "epochs", Help: "passes over the training nodes", Default: 10, Least: 1, allows: closed(1, MaxEpochs), give: fmt.Sprintf("a number from 1 to %d", MaxEpochs)},
	{Name: "lr", Help: "Adam's learning rate", Default: 0.003, Positive: true, allows: open(0, 1e6), give: "a learning rate above 0 and below a million"},
	{Name: "optimizer", Help: "adam, or adamw, with decoupled weight decay", Default: OptimizerAdam, Names: []string{OptimizerAdam, OptimizerAdamW}},
	{Name: "weight-decay", Help: "of all parameters, as PyTorch's weight_decay", allows: below(1e6), give: "a number from 0 up, below a million"},
	{Name: "label-smoothing", Help: "share of a label that is spread over all classes", allows: below(1), give: "a share from 0 up to, not including, 1"},
	{Name: "schedule", Help: "of the learning rate: constant, cosine, or plateau: lower when scores do not improve", Default: ScheduleConstant,
		Names: []string{ScheduleConstant, ScheduleCosine, SchedulePlateau}},
	{Name: "warmup", Help: "epochs in which the rate rises to --lr"},
	{Name: "min-lr", Help: "rate that cosine and plateau do not fall below"},
	{Name: "plateau-factor", Help: "by which plateau lowers the rate", Default: 0.5, Positive: true, allows: open(0, 1), give: "a factor above 0 and below 1"},
	{Name: "plateau-patience", Help: "epochs without a better score before plateau lowers the rate", Default: 10, Zero: true, allows: from(0), give: "a number from 0 up"},
	{Name: "patience", Help: "epochs without a better validation score that end the run; 0: it goes on", allows: from(0), give: "a number from 0 up"},
	{Name: "validate-every", Help: "epochs from one validation to the next; the last epoch is validated", Default: 1, Least: 1, allows: from(1), give: "a number of epochs from 1 up"},
	{Name: "validate", Help: "how validation and test nodes are scored: sampled, from sampled neighbours; or exact, from all neighbours, as by eval --exact: it needs --dataset, also with --pack", Shown: string(Sampled), Names: Validations()},
	{Name: "loss", Help: "cross-entropy, binary, or auto: by the labels", Default: LossAuto, Names: []string{LossAuto, LossCrossEntropy, LossBinary}},
	{Name: "metric", Help: "score: accuracy, auc (for two classes, or multi-label), f1, or auto: chosen by the data", Default: MetricAuto,
		Names: []string{MetricAuto, MetricAccuracy, MetricAUC, MetricF1}},
	{Name: "seed", Help: "seed of all random choices"},
	{Name: "accumulate", Help: "successive batches in a step, which sums their gradients; part of the result", Shown: "the number of ranks", Least: 1,
		allows: closed(0, MaxAccumulate), give: fmt.Sprintf("a number of batches from 1 to %d", MaxAccumulate)},
	{Name: "shuffle-batches", Help: "visit each epoch's batches in another order"},
	{Name: "init-from", Help: "initial weights: a safetensors file, or the best weights of a run, with the same shapes", Takes: "FILE|RUN"},
}

// Drawing are the options of batches that are drawn while training; all but the first have their
// defaults only if the first is given.
var Drawing = Options{
	{Name: "fanout", Help: "instead of --samples: draw batches while training, with these numbers of neighbours per layer, the seeds' last; all for every neighbour", Takes: "LIST"},
	{Name: "eval-fanout", Help: "with --fanout, for validation and test: same, all, or a list", Takes: "LIST", Default: "same"},
	{Name: "batch-size", Help: "with --fanout: seed nodes of a mini-batch", Default: 1024, Least: 1},
	{Name: "train-ratio", Help: "with --fanout: share of the training nodes to use", Default: 1.0, Positive: true},
	{Name: "sampler", Help: "with --fanout: how nodes choose neighbours, uniform or labor", Default: "uniform"},
	{Name: "batch-dependency", Help: "with --sampler labor: successive batches over which the choices change", Default: 1, Least: 1},
	{Name: "layer-dependency", Help: "with --sampler labor: the same choices in all layers"},
	{Name: "sample-seed", Help: "with --fanout: seed of the drawn batches"},
	{Name: "dry-epochs", Help: "with --fanout: epochs to draw before training, to find the largest batches: a number, or all", Takes: "X",
		Shown: "1, or all with --input-projection", Default: DryAuto},
}

// Computing are the options of the GPU's arithmetic.
var Computing = Options{
	{Name: "precision", Help: "precision of the GPU's matrix products: float32, tf32 or bf16", Default: PrecisionFloat32, Names: []string{PrecisionFloat32, PrecisionTF32, PrecisionBF16}},
}

// always are the options that every run has.
var always = slices.Concat(Model, Learning, Computing)

// Flags returns the names of the options on the command line, in the order of the fields.
func Flags() []string {
	var names []string
	eachOption(func(flag string, _ int) { names = append(names, flag) })
	return names
}

// eachOption calls f with the flag and the field of every option.
func eachOption(f func(flag string, field int)) {
	t := reflect.TypeFor[Recipe]()
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name == "dims" || name == "types" { // which follow from the options and the data
			continue
		}
		f(strings.ReplaceAll(name, "_", "-"), i)
	}
}

// Defaults returns the recipe of a run without any flag.
func Defaults() Recipe {
	var r Recipe
	for _, o := range always {
		if o.Zero {
			r.field(o.Name).Set(reflect.ValueOf(o.Default))
		}
	}
	r.EnsureDefaults()
	return r
}

// EnsureDefaults replaces zero values that mean a default.
func (r *Recipe) EnsureDefaults() {
	always.ensure(r)
	if r.Live() {
		Drawing.ensure(r)
	}
}

// Find returns the option with this name, which must have a row.
func Find(name string) Option {
	for _, o := range slices.Concat(always, Drawing) {
		if o.Name == name {
			return o
		}
	}
	panic("no option " + name)
}

// Field returns a pointer to the option's field.
func (r *Recipe) Field(name string) any { return r.field(name).Addr().Interface() }

func (r *Recipe) field(name string) reflect.Value {
	return reflect.ValueOf(r).Elem().Field(fields[name])
}

// fields are the indices of the options' fields.
var fields = func() map[string]int {
	m := map[string]int{}
	eachOption(func(flag string, field int) { m[flag] = field })
	return m
}()

// ensure replaces zero values that mean a default.
func (list Options) ensure(r *Recipe) {
	for _, o := range list {
		if f := r.field(o.Name); o.Default != nil && !o.Zero && f.IsZero() {
			f.Set(reflect.ValueOf(o.Default))
		}
	}
}

// validate names the first option that exceeds the bounds of its row.
func (list Options) validate(r *Recipe) error {
	for _, o := range list {
		f := r.field(o.Name)
		switch {
		case o.Names != nil && !slices.Contains(o.Names, fmt.Sprint(f.Interface())):
			return usage("--%s %v is not one of %s", o.Name, f, strings.Join(o.Names, ", "))
		case o.allows != nil && !o.allows(number(f)):
			return usage("--%s %v: give %s", o.Name, f, o.give)
		}
	}
	return nil
}

// number returns a field's integer or float as a float64.
func number(f reflect.Value) float64 {
	if f.CanInt() {
		return float64(f.Int())
	}
	return f.Float()
}

func closed(least, most float64) func(float64) bool {
	return func(x float64) bool { return x >= least && x <= most }
}

func open(least, most float64) func(float64) bool {
	return func(x float64) bool { return x > least && x < most }
}

func below(most float64) func(float64) bool {
	return func(x float64) bool { return x >= 0 && x < most }
}

func from(least float64) func(float64) bool {
	return func(x float64) bool { return x >= least }
}

func usage(format string, args ...any) error { return fault.New(fault.ErrUsage, format, args...) }

func namesOf[T ~string](list ...T) []string {
	s := make([]string, len(list))
	for i, v := range list {
		s[i] = string(v)
	}
	return s
}
