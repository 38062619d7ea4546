package commands

import (
	"context"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"diskgnn/dataset"
	"diskgnn/featurestore/stores"
	"diskgnn/internal/budget"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/shard"
	"diskgnn/internal/vfs"
	"diskgnn/train"
	"diskgnn/train/decide"
	"diskgnn/train/recipe"
)

const feedTeaches = `Loads the batches of a pack, of samples, or drawn ones, for another process, which trains a
model of its own on them. The Python package diskgnn starts it: see docs/python.md.

   for batch in diskgnn.Loader("pack", epochs=10):
       ...

The process that starts it makes a pair of connected Unix sockets and passes one of them as the
file descriptor --socket. Batches lie in shared memory, which counts in --memory. The command ends with
the last batch, or when the other end of the socket is closed.`

func feedCommand(list stores.List) command {
	t := training{Options: train.Defaults()}
	var o train.FeedOptions
	t.Stores = list
	t.Threads, t.Memory, t.PageCache = 0, 0, decide.PageCacheAuto
	split, sockets, state, plan := dataset.Train, "", 0, false
	return command{
		name:    "feed",
		usage:   "load batches for a model of another program",
		teaches: feedTeaches,
		groups: []group{
			{"Batches and features", append(t.sources(),
				nameFlag("split", "NAME", "batches to load: train, valid or test; or all: with --fanout, all nodes of the dataset in ascending order, by default once", train.FeedSplits, &split),
				boolFlag("plan", "with --split all: load three batches, and print the rows that the batches take, memory and time", &plan),
				intFlag("from", "batches to leave out at the beginning, over all epochs", "", &o.From, 0),
				flag("dtype", "TYPE", "type of the features that the consumer gets: float32, fp16 or bf16", "float32", func(text string) (err error) {
					o.DType, err = dtype.Parse(text)
					return err
				}),
				flag("rank", "R/W", "load the training batches of one of several consumers: rank R of W, from 0", "all batches", func(text string) (err error) {
					if o.Share, err = shard.Parse(text); err != nil {
						return fault.New(fault.ErrUsage, "%q is no rank: write 0/2 for the first of two", text)
					}
					return nil
				}),
				intFlag("state", "file descriptor of a state of the store that feed sent at this position", "", &state, 0),
				stringFlag("socket", "FD,...", "file descriptors of connected sockets, one for each rank of several consumers", &sockets))},
			{"Epochs", t.recipe(named("epochs", "seed", "shuffle-batches"))},
			{"Drawing batches while training", append(t.recipe(recipe.Drawing), t.preferences("topology", "topology-memory", "topology-order")...)},
			{"Memory and reading", append(t.preferences("memory", "ram-cache", "slots", "cache-policy", "accumulator", "fault-threads", "page-cache", "io"),
				sizeFlag("gpu-cache", "with --pack: rows that the other process holds, on a GPU say: a share of them, or bytes; it gets them once", "none", budget.UnitPercent, &o.GPUCache))},
		},
		check: func(s *session) error {
			t.Given, t.Command = s.given, s.g.args
			o.Options = t.Options
			o.SetSplit(split)
			return s.settle(&o, &o.Memory)
		},
		planning: &plan,
		plan: shows(func(ctx context.Context, s *session) (train.Plan, error) {
			return train.PlanFeed(ctx, vfs.OS, o, s.rep)
		}, func(p train.Plan) outcome { return runPlan(p, o.Memory) }),
		run: func(ctx context.Context, s *session) (outcome, error) {
			if state > 0 {
				f := os.NewFile(uintptr(state), "state")
				defer f.Close()
				o.State = f
			}
			conns, err := socketsAt(sockets)
			if err != nil {
				return outcome{}, err
			}
			return outcome{object: struct{}{}}, train.Feed(ctx, vfs.OS, o, conns, s.rep)
		},
	}
}

// named returns rows of the recipe.
func named(names ...string) (rows recipe.Options) {
	for _, o := range recipe.Learning {
		if slices.Contains(names, o.Name) {
			rows = append(rows, o)
		}
	}
	return rows
}

// socketsAt returns the connected Unix sockets of a list of file descriptors.
func socketsAt(list string) (conns []*net.UnixConn, err error) {
	if list == "" {
		return nil, fault.New(fault.ErrUsage, "give --socket: the process that starts feed passes connected Unix sockets on, as the Python package does")
	}
	for text := range strings.SplitSeq(list, ",") {
		conn, err := socketAt(text)
		if err != nil {
			for _, c := range conns {
				_ = c.Close()
			}
			return nil, err
		}
		conns = append(conns, conn)
	}
	return conns, nil
}

// socketAt returns the connected Unix socket of a file descriptor.
func socketAt(text string) (*net.UnixConn, error) {
	fd, err := strconv.ParseUint(text, 10, 31)
	if err != nil || fd < 3 {
		return nil, fault.New(fault.ErrUsage, "--socket %s: give the file descriptors of connected Unix sockets, 3 or above", text)
	}
	f := os.NewFile(uintptr(fd), "socket")
	defer f.Close() // FileConn has a copy
	c, err := net.FileConn(f)
	if err != nil {
		return nil, fault.New(fault.ErrUsage, "--socket %d is no socket: %w", fd, err)
	}
	conn, ok := c.(*net.UnixConn)
	if !ok {
		_ = c.Close()
		return nil, fault.New(fault.ErrUsage, "--socket %d is no Unix socket", fd)
	}
	return conn, nil
}
