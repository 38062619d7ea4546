package train

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"diskgnn/device/cuda"
	"diskgnn/device/cuda/kernels"
	"diskgnn/featurestore"
	"diskgnn/featurestore/packed"
	"diskgnn/internal/errgroup"
	"diskgnn/internal/fault"
	"diskgnn/internal/job"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/iostack"
	"diskgnn/iostack/all"
	"diskgnn/train/collective"
	"diskgnn/train/rundir"
)

// AllGPUs stands for as many GPUs as the machine has.
const AllGPUs = -1

// Several GPUs of one process train as ranks of one run, each by goroutines of its own, in a group
// within the process. A pack they have in common: its files and its rows in RAM once, and its
// hottest rows divided among the GPUs, if these reach each other's memory.

// runGPUs is Run on several GPUs.
func runGPUs(ctx context.Context, fsys vfs.FS, o Options, rep progress.Reporter) (rundir.Result, error) {
	infos, err := cuda.Devices()
	if err != nil {
		return rundir.Result{}, noGPUEngine(err)
	}
	n := o.GPUs
	if n == AllGPUs {
		n = len(infos)
	}
	if n > len(infos) {
		return rundir.Result{}, fault.New(fault.ErrUsage, "--gpus %d: this machine has %d", n, len(infos))
	}
	return runTogether(ctx, fsys, o, rep, n, collective.Usual, func(index int) (*cuda.Device, error) { return kernels.Open(index, cuda.Options{}) })
}

// runTogether is run of so many ranks within the process, on devices that open opens.
func runTogether(ctx context.Context, fsys vfs.FS, o Options, rep progress.Reporter, n int, limits collective.Limits, open func(index int) (*cuda.Device, error)) (rundir.Result, error) {
	if err := o.forTogether(n); err != nil {
		return rundir.Result{}, err
	}
	s := newSharing(n)
	groups := collective.Local(n, limits)
	results, errs := make([]rundir.Result, n), make([]error, n)
	devices := make([]*gpuDevice, n)
	g, _ := errgroup.WithContext(ctx)
	for i := range n {
		mine, log := o, rep
		mine.Job = job.Place{Index: i, Count: n, LocalIndex: i, LocalCount: n}
		mine.sharing = s
		if i > 0 {
			log = progress.Discard
		}
		devices[i] = &gpuDevice{from: func(int, cuda.Options) (*cuda.Device, error) { return open(i) }, stacks: all.Open, keep: true}
		p := parts{devices[i].openStack, devices[i].newEngine, planMemory, enterGroup,
			func(context.Context, *Options, progress.Reporter) (*collective.Group, error) { return groups[i], nil }}
		g.Go(func() error {
			results[i], errs[i] = run(ctx, fsys, mine, log, p)
			s.left(i)
			return nil
		})
	}
	err := g.Wait()
	for _, d := range devices { // the ranks used each other's until the end
		d.keep = false
		d.close()
	}
	return results[0], errors.Join(err, together(errs))
}

// together returns what the ranks of a process ended with: the error that began it.
func together(errs []error) error {
	for i, err := range errs {
		if _, lost := errors.AsType[*collective.Lost](err); err != nil && !lost && !errors.Is(err, fault.ErrInterrupted) {
			if i == 0 {
				return err
			}
			return fmt.Errorf("GPU %d: %w", i, err)
		}
	}
	return errs[0]
}

// forTogether divides what is the process' among so many ranks.
func (o *Options) forTogether(n int) error {
	switch {
	case o.Job.Count > 1:
		return fault.New(fault.ErrUsage, "--gpus %d: this process is one of %d ranks, which have a GPU each", n, o.Job.Count)
	case o.Engine != EngineGPU && o.Engine != EngineAuto && o.Engine != "":
		return fault.New(fault.ErrUsage, "--gpus %d: the engine is %s", n, o.Engine)
	}
	o.Engine = EngineGPU
	if o.Threads > 0 {
		o.Threads = max(1, o.Threads/n)
	}
	if o.Memory > 0 {
		o.Memory /= int64(n)
	}
	return nil
}

// sharing is what ranks of one process have in common.
type sharing struct {
	mu      sync.Mutex
	devices []*cuda.Device
	reach   []bool
	met     [2]chan struct{} // all devices are known; whom they reach is
	came    [2]int

	opened chan struct{} // the store is
	store  featurestore.Store
	wrong  error
	filled chan struct{}  // its levels are
	using  sync.WaitGroup // ranks but the first that have a view
	users  map[int]bool
}

func newSharing(n int) *sharing {
	s := &sharing{devices: make([]*cuda.Device, n), reach: make([]bool, n), opened: make(chan struct{}), filled: make(chan struct{}), users: map[int]bool{}}
	for i := range s.met {
		s.met[i] = make(chan struct{})
	}
	return s
}

// arrive waits until all ranks have, or one is lost.
func (s *sharing) arrive(g *collective.Group, at int, say func()) error {
	s.mu.Lock()
	say()
	if s.came[at]++; s.came[at] == len(s.devices) {
		close(s.met[at])
	}
	s.mu.Unlock()
	return s.wait(g, s.met[at])
}

func (s *sharing) wait(g *collective.Group, c chan struct{}) error {
	select {
	case <-c:
		return nil
	case <-g.Context().Done():
		return errors.Join(g.Lost(), context.Canceled)
	}
}

// levelled is what ranks of one process must plan alike.
type levelled struct {
	Engine  int64 `json:"engine"`
	GPULeft int64 `json:"gpu_left"`
}

// meet brings the ranks of a process together: their devices, whether these reach each other's
// memory, and how much of what each has, of which all plan with the least.
func (r *runner) meet(needs *engineNeeds) error {
	o := &r.options
	s := o.sharing
	if s == nil {
		return nil
	}
	all, err := gather(r.group, levelled{needs.engine, needs.gpuLeft})
	if err != nil {
		return err
	}
	var least levelled
	if o.root() {
		least = all[0]
		for _, l := range all[1:] {
			least.Engine, least.GPULeft = max(least.Engine, l.Engine), min(least.GPULeft, l.GPULeft)
		}
	}
	if err := broadcast(r.group, &least); err != nil {
		return err
	}
	needs.engine, needs.gpuLeft = least.Engine, least.GPULeft
	me := o.Job.Index
	if err := s.arrive(r.group, 0, func() { s.devices[me] = needs.gpu }); err != nil {
		return err
	}
	reaches := true
	err = needs.gpu.Attached(func() error {
		for i, peer := range s.devices {
			if i == me {
				continue
			}
			can, err := needs.gpu.Reach(peer)
			if err != nil {
				return err
			}
			reaches = reaches && can
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := s.arrive(r.group, 1, func() { s.reach[me] = reaches }); err != nil {
		return err
	}
	divide := !slices.Contains(s.reach, false)
	if _, is := r.found.(featurestore.Sliced); is && r.found.Name() == packed.Name {
		r.found = &sharedCandidate{Candidate: r.found, sharing: s, group: r.group, rank: me, divide: divide}
		if divide {
			r.report.Logf("GPUs: %d, which reach each other's memory (cuDeviceCanAccessPeer: 1): the hottest rows are divided among them, RAM's are the process' once", len(s.devices))
		} else {
			r.report.Logf("GPUs: %d, which do not reach each other's memory (cuDeviceCanAccessPeer: 0): each has the hottest rows, RAM's are the process' once", len(s.devices))
		}
	} else {
		r.report.Logf("GPUs: %d; of the store %s each has its own, in RAM too", len(s.devices), r.found.Name())
	}
	return nil
}

// tell ends the other ranks of the process with an error of this one, before it closes what they
// have in common.
func (r *runner) tell(err error) {
	if r.options.sharing != nil && err != nil && !errors.Is(err, errAgreed) {
		r.group.Fail(err)
	}
}

// left notes that a rank has ended, whether it has opened the store or not.
func (s *sharing) left(rank int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users[rank] {
		delete(s.users, rank)
		s.using.Done()
	}
}

// sharedCandidate is a pack that the ranks of a process have in common.
type sharedCandidate struct {
	featurestore.Candidate
	*sharing
	group  *collective.Group
	rank   int
	divide bool
}

// Slice is the pack's.
func (c *sharedCandidate) Slice() (featurestore.Slice, bool) {
	return c.Candidate.(featurestore.Sliced).Slice()
}

// Plan is that of all devices: every rank comes to the same.
func (c *sharedCandidate) Plan(o featurestore.PlanOptions) (featurestore.Layout, error) {
	o.GPU, o.Peers, o.Divide, o.Direct = c.devices[0], c.devices[1:], c.divide, false
	return c.Candidate.Plan(o)
}

// Open opens the store on the first rank, and gives the others a view of it.
func (c *sharedCandidate) Open(stack iostack.Stack, l featurestore.Layout) (featurestore.Store, error) {
	if c.rank == 0 {
		c.store, c.wrong = c.Candidate.Open(stack, l)
		close(c.opened)
	} else if err := c.wait(c.group, c.opened); err != nil {
		return nil, err
	}
	if c.wrong != nil {
		return nil, c.wrong
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rank > 0 {
		c.users[c.rank] = true
		c.using.Add(1)
	}
	return &sharedStore{c}, nil
}

// sharedStore is a rank's view of the store.
type sharedStore struct{ of *sharedCandidate }

func (s *sharedStore) View(int) featurestore.View { return s.of.store.View(s.of.rank) }

// Fill fills all levels, once; bytes are counted for the first rank.
func (s *sharedStore) Fill(ctx context.Context, next int, rep progress.Reporter) (int64, error) {
	if s.of.rank > 0 {
		return 0, s.of.wait(s.of.group, s.of.filled)
	}
	n, err := s.of.store.Fill(ctx, next, rep)
	if err == nil {
		close(s.of.filled)
	}
	return n, err
}

func (s *sharedStore) State() ([]byte, error)   { return s.of.store.State() }
func (s *sharedStore) LoadState(b []byte) error { return s.of.store.LoadState(b) }

// Close closes the store once no rank uses it any more.
func (s *sharedStore) Close() error {
	if s.of.rank > 0 {
		s.of.left(s.of.rank)
		return nil
	}
	s.of.using.Wait()
	return s.of.store.Close()
}
