package pack

import (
	"fmt"
	"runtime"
	"slices"
	"strings"

	"diskgnn/internal/budget"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/shard"
	"diskgnn/iostack/all"
	"diskgnn/pack/cut"
	"diskgnn/pack/packfile"
)

// DTypeSame is the DType that keeps the dataset's element type.
const DTypeSame = "same"

// CompressAuto is the value of Compress that chooses the codec with the fastest chunks, by measuring.
const CompressAuto = cut.CodecAuto

// codecs are the ways to store chunks.
var codecs = []string{packfile.CodecNone, packfile.CodecS2, packfile.CodecZstd}

// Codecs returns the values that --compress-chunks accepts.
func Codecs() []string { return append([]string{CompressAuto}, codecs...) }

// Policies returns the values that --policy accepts.
func Policies() []string { return []string{packfile.PolicyStatic, packfile.PolicyMin} }

// Options of a packing. The zero value of a field means its default.
type Options struct {
	Dataset, Samples, Out string

	// Shard is the part of the pack to make, in a directory of its own beside Out. The zero value means the
	// whole pack.
	Shard shard.Shard

	// Cache is the least hot set that every trainer of this pack must hold in
	// memory: a share of the nodes, or bytes. Nil: 5 % of the nodes.
	Cache *budget.Size
	// Bands are the cache sizes, in percent of the nodes, that a trainer may
	// choose from. Nil: 50, 30, 20, 10, 5, and 100 where that costs little disk: see
	// cut.WholeTable. Empty: the least hot set only.
	Bands []float64
	// MaxDisk bounds the pack's bytes: bytes, a multiple of the feature table
	// (3x), or unlimited, which is the default and means the disk's free space.
	MaxDisk *budget.Size
	Policy  string // "static" or "min"
	DType   string // "same", "float16", "bfloat16", "int8" or "int4"

	// EvalChunks gives validation batches chunks too, so that trainers without memory for their rows read
	// them in sequence.
	EvalChunks bool

	// Compress is the codec of the chunks: "none", "s2", "zstd" or "auto".
	Compress string

	// IO is the storage backend that reads the feature table.
	IO string

	// PlanFile is a file of MakePlan with choices made by measuring, for all shards of a pack. "": none.
	PlanFile string
	planning bool // the plan file is to be written

	Workers int   // goroutines; 0: one for each processor
	Memory  int64 // limit of the anonymous memory in bytes; 0: budget.Default
	Force   bool  // replace a pack made with other parameters

	// RangeRows, if positive, bounds the rows of each range, and the hot rows in memory, below the bound by
	// Memory. It changes no byte; tests use it to pack small tables in many ranges.
	RangeRows int64
	openFiles int // most files that are open for writing at a time; 0: by the process's limit
}

// defaultBands are the cache sizes, in percent of the nodes, that packs are cut for.
var defaultBands = []float64{50, 30, 20, 10, 5}

// DefaultBands returns the bands of options without bands, without an edge of 100 %.
func DefaultBands() []float64 { return slices.Clone(defaultBands) }

// EnsureDefaults sets fields with the zero value to their defaults, except for Bands.
func (o *Options) EnsureDefaults() {
	if o.Cache == nil {
		o.Cache = &budget.Size{Value: 5, Unit: budget.UnitPercent}
	}
	if o.MaxDisk == nil {
		o.MaxDisk = &budget.Size{Unit: budget.UnitUnlimited}
	}
	if o.Policy == "" {
		o.Policy = packfile.PolicyStatic
	}
	if o.DType == "" {
		o.DType = DTypeSame
	}
	if o.Compress == "" {
		o.Compress = packfile.CodecNone
	}
	if o.IO == "" {
		o.IO = all.Auto
	}
	if o.Workers == 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if o.Memory == 0 {
		o.Memory, _ = budget.Default()
	}
}

// Validate returns an error of kind fault.ErrUsage that names the first invalid flag. EnsureDefaults comes
// first.
func (o *Options) Validate() error {
	usage := func(format string, args ...any) error { return fault.New(fault.ErrUsage, format, args...) }
	switch {
	case o.Dataset == "":
		return usage("--dataset: which dataset?")
	case o.Samples == "":
		return usage("--samples: which samples?")
	case o.Out == "":
		return usage("--out: where to write the pack?")
	case o.Workers < 1:
		return usage("--workers %d: at least 1", o.Workers)
	case o.Memory < 0:
		return usage("--memory: negative")
	case !slices.Contains(Policies(), o.Policy):
		return usage("--policy %s is not one of %s", o.Policy, strings.Join(Policies(), ", "))
	case o.Policy == packfile.PolicyMin && len(o.Bands) > 0 && !slices.Equal(o.Bands, defaultBands):
		return usage("--bands needs --policy static: under policy min every trainer has the cache of --cache")
	case !slices.Contains(Codecs(), o.Compress):
		return usage("--compress-chunks %s is not one of %s", o.Compress, strings.Join(Codecs(), ", "))
	case !o.Shard.Whole() && o.planning:
		return usage("--plan is for the whole pack: omit --shard")
	case !o.Shard.Whole() && o.Compress == CompressAuto && o.PlanFile == "":
		return usage("--shard with --compress-chunks auto: machines may measure differently; give each the same --plan-file")
	case o.Cache.Unit == budget.UnitTimes:
		return usage("--cache %s: give a share of the nodes (5%%) or bytes (2GiB)", o.Cache)
	case o.MaxDisk.Unit == budget.UnitPercent:
		return usage("--max-disk %s: give bytes (200GiB), a multiple of the features (3x) or unlimited", o.MaxDisk)
	case len(o.Bands) > 16:
		return usage("--bands: %d bands are too many; at most 16 are possible", len(o.Bands))
	}
	for _, b := range o.Bands {
		if !(b > 0 && b <= 100) {
			return usage("--bands %v: a band is a percentage of the nodes, above 0 and up to 100", b)
		}
	}
	if err := o.Shard.Validate(); err != nil {
		return fmt.Errorf("--shard: %w", err)
	}
	_, err := o.target(dtype.Float32)
	return err
}

// maxDisk returns the disk budget in bytes; 0: none. table is the size of the feature table in bytes.
func (o *Options) maxDisk(table int64) (int64, error) {
	if o.MaxDisk.Unit == budget.UnitUnlimited {
		return 0, nil
	}
	limit := o.MaxDisk.Value
	if o.MaxDisk.Unit == budget.UnitTimes {
		limit *= float64(table)
	}
	if limit < 1 {
		return 0, fault.New(fault.ErrBudget, "--max-disk %s: no pack is that small", o.MaxDisk)
	}
	return int64(min(limit, 1<<62)), nil
}

// target returns the pack's element type, given the dataset's.
func (o *Options) target(source dtype.Type) (dtype.Type, error) {
	if o.DType == DTypeSame {
		return source, nil
	}
	t, err := dtype.Parse(o.DType)
	if err != nil {
		return "", fault.New(fault.ErrUsage, "--dtype %s: unknown; use same, bf16, fp16, int8 or int4", o.DType)
	}
	if t.Bits() > source.Bits() {
		return "", fault.New(fault.ErrUsage, "--dtype %s is wider than the dataset's %s: it would cost disk and win nothing", t, source)
	}
	return t, nil
}

// bandsDescending returns the wanted band edges, largest first, each once.
func (o *Options) bandsDescending() []float64 {
	if o.Policy == packfile.PolicyMin {
		return []float64{}
	}
	if o.Bands == nil {
		return DefaultBands()
	}
	b := slices.Clone(o.Bands)
	slices.Sort(b)
	slices.Reverse(b)
	return slices.Compact(b)
}
