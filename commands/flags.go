package commands

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"diskgnn/internal/budget"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/job"
	"diskgnn/internal/shard"
	"diskgnn/internal/vfs"
	"diskgnn/presample"
	"diskgnn/train"
	"diskgnn/train/cpu/blas"
	"diskgnn/train/recipe"
	"diskgnn/train/rundir"
)

// value is the value of a flag. It parses itself, so that all messages come from this program, and a
// configuration file is parsed like the command line.
type value struct {
	set  func(string) error
	text string
}

func (v *value) Set(s string) error {
	if err := v.set(strings.TrimSpace(s)); err != nil {
		return err
	}
	v.text = s
	return nil
}

func (v *value) String() string { return v.text }

// option is a flag with a name for its value in the help.
type option struct {
	*cli.GenericFlag
	placeholder string
}

// String returns the flag's line in the help.
func (o *option) String() string {
	s := "--" + o.Name
	for _, short := range o.Aliases {
		s += ", -" + short
	}
	s += " " + o.placeholder + "\t" + o.Usage
	if o.DefaultText != "" {
		s += " (default: " + o.DefaultText + ")"
	}
	return s
}

// flags is a list of flags.
type flags = []cli.Flag

// flag makes an option; the help shows text as its default.
func flag(name, placeholder, usage, text string, set func(string) error) cli.Flag {
	return &option{&cli.GenericFlag{Name: name, Usage: usage, DefaultText: text, Value: &value{set: set}}, placeholder}
}

func bad(s, want string) error { return fault.New(fault.ErrUsage, "%q is no %s", s, want) }

func stringFlag(name, placeholder, usage string, dst *string) cli.Flag {
	return flag(name, placeholder, usage, *dst, text(dst))
}

// nameFlag takes one of the known names.
func nameFlag(name, placeholder, usage string, known []string, dst *string) cli.Flag {
	return namedFlag(name, placeholder, usage, *dst, known, dst)
}

// namedFlag is nameFlag without a fixed default; the text describes the default.
func namedFlag(name, placeholder, usage, byDefault string, known []string, dst *string) cli.Flag {
	return flag(name, placeholder, usage, byDefault, oneOf(dst, known))
}

// oneOf takes one of the known words, and lists them in the error for other words.
func oneOf(dst *string, known []string) func(string) error {
	return parsed(dst, func(s string) (string, error) {
		if !slices.Contains(known, s) {
			return "", fault.New(fault.ErrUsage, "%q is not one of %s", s, strings.Join(known, ", "))
		}
		return s, nil
	})
}

// parsed takes the values that parse accepts.
func parsed[T any](dst *T, parse func(string) (T, error)) func(string) error {
	return func(s string) (err error) {
		*dst, err = parse(s)
		return err
	}
}

// text takes any text that is not empty.
func text(dst *string) func(string) error {
	return func(s string) error {
		if s == "" {
			return fault.New(fault.ErrUsage, "is empty")
		}
		*dst = s
		return nil
	}
}

func boolFlag(name, usage string, dst *bool) cli.Flag {
	return &cli.BoolFlag{Name: name, Usage: usage, Destination: dst, Value: *dst, DisableDefaultText: !*dst}
}

// intFlag takes whole numbers from least upward. A default of 0 below least means that the stage
// chooses; the text describes it.
func intFlag[T int | int64 | uint64](name, usage, text string, dst *T, least T) cli.Flag {
	if text == "" {
		text = strconv.FormatInt(int64(*dst), 10)
	}
	return flag(name, "N", usage, text, parsed(dst, integer(least, 0)))
}

// integer parses whole numbers from least to most; a most of 0 is no limit.
func integer[T int | int64 | uint64](least, most T) func(string) (T, error) {
	return func(s string) (T, error) {
		n, err := parseInt(s, int64(least))
		switch {
		case err == nil && (T(n) < 0 || int64(T(n)) != n):
			err = bad(s, "number in range")
		case err == nil && most > 0 && T(n) > most:
			err = fault.New(fault.ErrUsage, "%d is more than %d", n, most)
		}
		return T(n), err
	}
}

func parseInt(s string, least int64) (int64, error) {
	n, err := strconv.ParseInt(strings.ReplaceAll(s, "_", ""), 10, 64)
	if err != nil {
		return 0, bad(s, "whole number")
	}
	if n < least {
		return 0, fault.New(fault.ErrUsage, "%d is less than %d", n, least)
	}
	return n, nil
}

// floatFlag takes any number. The stage checks its range.
func floatFlag(name, usage string, dst *float64) cli.Flag {
	return flag(name, "X", usage, formatFloat(*dst), parsed(dst, parseFloat))
}

// positiveFlag takes numbers above 0, since 0 means "not given" in the options of stages.
func positiveFlag(name, usage string, dst *float64) cli.Flag {
	return flag(name, "X", usage, formatFloat(*dst), parsed(dst, parsePositive))
}

func parsePositive(s string) (float64, error) {
	x, err := parseFloat(s)
	if err == nil && x <= 0 {
		err = fault.New(fault.ErrUsage, "%v is not more than 0", x)
	}
	return x, err
}

func formatFloat(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

func parseFloat(s string) (float64, error) {
	x, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
		return 0, bad(s, "number")
	}
	return x, nil
}

// bytesFlag takes a number of bytes; 0 is reserved for the stage's default.
func bytesFlag(name, usage, text string, dst *int64) cli.Flag {
	return flag(name, "SIZE", usage, text, parsed(dst, parseBytes))
}

// parseBytes reads an amount of bytes above 0.
func parseBytes(s string) (int64, error) {
	size, err := budget.ParseSize(s, budget.UnitBytes)
	if err != nil {
		return 0, err
	}
	n, err := size.Bytes()
	if err == nil && n == 0 {
		err = fault.New(fault.ErrUsage, "must be more than 0 bytes")
	}
	return n, err
}

// sizeFlag takes a size in any unit of the stage: bytes, and the other common unit.
func sizeFlag(name, usage, text string, other budget.Unit, dst **budget.Size) cli.Flag {
	if text == "" && *dst != nil {
		text = (*dst).String()
	}
	return flag(name, "SIZE", usage, text, parsed(dst, func(s string) (*budget.Size, error) {
		size, err := budget.ParseSize(s, budget.UnitBytes, other)
		return &size, err
	}))
}

// floatsFlag takes a list like 50,30,20; "none" is the empty list.
func floatsFlag(name, usage string, dst *[]float64) cli.Flag {
	return flag(name, "LIST", usage, join(*dst, ",", formatFloat), func(s string) error {
		if s == "none" {
			*dst = []float64{}
			return nil
		}
		return listOf(dst, func(s string) (float64, error) { return parseFloat(strings.TrimSuffix(s, "%")) })(s)
	})
}

// listOf takes a comma-separated list of values that one accepts.
func listOf[T any](dst *[]T, one func(string) (T, error)) func(string) error {
	return func(s string) error {
		var list []T
		for part := range strings.SplitSeq(s, ",") {
			v, err := one(strings.TrimSpace(part))
			if err != nil {
				return err
			}
			list = append(list, v)
		}
		*dst = list
		return nil
	}
}

// stringsFlag takes a list like a,b.
func stringsFlag(name, placeholder, usage string, dst *[]string) cli.Flag {
	return flag(name, placeholder, usage, strings.Join(*dst, ","), func(s string) error {
		return listOf(dst, func(part string) (string, error) {
			if part == "" {
				return "", fault.New(fault.ErrUsage, "%q has an empty part", s)
			}
			return part, nil
		})(s)
	})
}

func join[T any](list []T, separator string, format func(T) string) string {
	parts := make([]string, len(list))
	for i, v := range list {
		parts[i] = format(v)
	}
	return strings.Join(parts, separator)
}

// rowFlag makes a flag of an option's row, for a value that dst points to.
func rowFlag(o recipe.Option, dst any) cli.Flag {
	shown := o.Shown
	if shown == "" && o.Default != nil {
		shown = fmt.Sprint(o.Default)
	}
	switch dst := dst.(type) {
	case *bool:
		return boolFlag(o.Name, o.Help, dst)
	case *int:
		return flag(o.Name, "N", o.Help, cmp.Or(shown, strconv.Itoa(*dst)), parsed(dst, integer(int(o.Least), int(o.Most))))
	case *uint64:
		return intFlag(o.Name, o.Help, shown, dst, uint64(o.Least))
	case *int64:
		return bytesFlag(o.Name, o.Help, shown, dst)
	case *float64:
		if o.Positive {
			return flag(o.Name, "X", o.Help, shown, parsed(dst, parsePositive))
		}
		return floatFlag(o.Name, o.Help, dst)
	case **budget.Size:
		return sizeFlag(o.Name, o.Help, shown, budget.UnitPercent, dst)
	case *rundir.Interval:
		return flag(o.Name, o.Takes, o.Help, dst.String(), parsed(dst, rundir.ParseInterval))
	case *string:
		takes, shown := cmp.Or(o.Takes, "NAME"), cmp.Or(shown, *dst)
		if o.Names == nil {
			return flag(o.Name, takes, o.Help, shown, text(dst))
		}
		return namedFlag(o.Name, takes, o.Help, shown, o.Names, dst)
	}
	panic(fmt.Sprintf("--%s: no flag sets a %T", o.Name, dst))
}

// dtypeFlag takes a type's name, or its short form.
func dtypeFlag(usage, text string, dst *dtype.Type) cli.Flag {
	return flag("dtype", "TYPE", usage, text, parsed(dst, dtype.Parse))
}

// The flags that stages share.

func outFlag(dst *string, what string) cli.Flag {
	return outAs("DIR", "directory to make: "+what, dst)
}

// outAs is the flag --out, -o of a command; the placeholder names its output.
func outAs(placeholder, usage string, dst *string) cli.Flag {
	f := outputFlag("out", placeholder, usage, dst)
	f.(*option).Aliases = []string{"o"}
	return f
}

// outputFlag takes the name of an output. If it is a symbolic link, dst is the link's target.
func outputFlag(name, placeholder, usage string, dst *string) cli.Flag {
	return flag(name, placeholder, usage, *dst, func(s string) (err error) {
		if err := text(dst)(s); err != nil {
			return err
		}
		*dst, err = vfs.Destination(s)
		return err
	})
}

func forceFlag(dst *bool) cli.Flag {
	return boolFlag("force", "replace an output that was made with other parameters or is damaged; discard an unfinished one with other parameters", dst)
}

// stageFlags are the flags of a stage with bounds on processors, memory and disk.
func stageFlags(workers *int, memory *int64, force *bool) flags {
	return flags{
		parallelFlag("workers", "goroutines; the output is the same for any number", workers),
		memoryFlag(memory),
		spaceFlag(),
		forceFlag(force),
	}
}

// fanoutFlag takes the numbers of neighbours that are drawn in advance.
func fanoutFlag(dst *[]int) cli.Flag {
	return flag("fanout", "LIST", "neighbours to draw per layer, the seeds' last; all for every neighbour", join(*dst, ",", strconv.Itoa), parsed(dst, presample.ParseFanout))
}

// skipSpace turns off a stage's check of the disk's free space.
const skipSpace = "skip-space-check"

func spaceFlag() cli.Flag {
	return boolFlag(skipSpace, "begin even if the disk seems to lack space", new(bool))
}

// mostParallel exceeds the processors of any machine, and is small enough that memory per worker
// can be summed without overflow.
const mostParallel = 4096

// parallelFlag takes a number of workers or threads.
func parallelFlag(name, usage string, dst *int) cli.Flag {
	return flag(name, "N", usage, "all processors", parsed(dst, integer(1, mostParallel)))
}

// preference returns the row of a train flag that does not influence the result, for another command with
// this flag. shown, if not empty, replaces the default in the help.
func preference(name, shown string) recipe.Option {
	o, _ := new(train.Options).Preference(name)
	o.Shown = cmp.Or(shown, o.Shown)
	return o
}

func memoryFlag(dst *int64) cli.Flag { return rowFlag(preference("memory", ""), dst) }

func blasFlag(dst *string) cli.Flag {
	return nameFlag("blas", "NAME", "library of matrix products: openblas, builtin, gonum, or auto, the first one available", blas.Kinds(), dst)
}

// part is the value of --shard: a shard, or auto for the shard that the scheduler assigns.
type part struct {
	shard shard.Shard
	ask   job.Ask
}

// shardFlag takes a part like 0/4, auto, or auto/4.
func shardFlag(usage string, dst *part) cli.Flag {
	return flag("shard", "I/N", usage, "", parsed(dst, func(s string) (p part, err error) {
		if strings.HasPrefix(s, "auto") {
			p.ask, err = job.ParseAsk(s)
		} else {
			p.shard, err = shard.Parse(s)
		}
		return p, err
	}))
}

// shard returns the shard that the command makes, the zero value for the whole. If the scheduler assigned
// the shard, it is logged.
func (s *session) shard(p part) (shard.Shard, error) {
	if p.ask.Auto {
		place, err := job.Find(job.Shards, p.ask, job.Environ)
		if err != nil {
			return shard.Shard{}, err
		}
		s.rep.Logf("shard %s", place)
		p.shard = shard.Shard{Index: place.Index, Count: place.Count}
	}
	s.making.part(p.shard.DirName)
	return p.shard, nil
}

func seedFlag(dst *uint64) cli.Flag { return rowFlag(recipe.Find("seed"), dst) }

func ioFlag(dst *string) cli.Flag { return rowFlag(preference("io", ""), dst) }

// engineUsage is the help of --engine.
const engineUsage = "engine: cpu, gpu, none (load batches only), or auto: the gpu if the machine has one"
