package train

import (
	"errors"

	"diskgnn/internal/errgroup"
	"diskgnn/train/collective"
	"diskgnn/train/engine"
	"diskgnn/train/epoch"
	"diskgnn/train/model"
	"diskgnn/train/ranks"
	"diskgnn/train/recipe"
)

// writes reports whether the process makes the run's directory: a plan has none.
func (r *runner) writes() bool { return r.root && !r.planning }

// engine returns the first replica's engine, nil where nothing is computed.
func (r *runner) engine() engine.Engine { return r.replicas[0].Engine }

// reducing counts the memory of the reduction of gradients.
func (r *runner) reducing(o *Options, needs *engineNeeds) {
	if !r.apart {
		return
	}
	for i := range o.replicas() {
		needs.Engine += collective.OrderedBytes(r.layout(&o.Recipe), o.Accumulate, o.Accumulate/o.world(), o.Job.Index+i, o.world())
	}
}

// layout returns the layout of the weights, or an empty one where nothing is computed.
func (r *runner) layout(o *recipe.Recipe) *model.Layout {
	if r.engine() == nil {
		return &model.Layout{Offsets: []int{0}}
	}
	m := o.Network()
	l := m.Layout()
	return &l
}

// unite gives every replica its place among the ranks, and its reduction. It must end before any
// rank sends anything of a step.
func (r *runner) unite() error {
	o := &r.decision.Options
	groups := []*collective.Group{r.group}
	if o.Replicas > 1 {
		groups = collective.Local(o.Replicas, collective.Usual)
	}
	for i, rep := range r.replicas {
		switch rep.Group = groups[i]; {
		case rep.Alone():
		case r.apart:
			rep.Reduction = collective.NewOrdered(rep.Group, r.layout(&o.Recipe), o.Accumulate, o.Accumulate/o.Ranks)
		default:
			var err error
			if rep.Devices, err = collective.NewDevices(rep.Group, rep.Comm, rep.Engine, o.Accumulate, o.Accumulate/o.Ranks); err != nil {
				return err
			}
			rep.Reduction = rep.Devices
		}
	}
	return nil
}

// separate undoes unite.
func (r *runner) separate() {
	for _, rep := range r.replicas {
		if rep.Group != nil && rep.Group != r.group {
			rep.Group.Close()
		}
	}
}

// each trains with all replicas of the process, the first one on this goroutine. An error of one of
// them ends all. It is the result, and not the error of another replica, which has its text alone.
func (r *runner) each(f func(rep *epoch.Replica) error) error {
	var others errgroup.Group
	errs := make([]error, len(r.replicas))
	for i, rep := range r.replicas[1:] {
		others.Go(func() error {
			errs[1+i] = r.alone(rep, f)
			return nil
		})
	}
	errs[0] = r.alone(r.replicas[0], f)
	if err := others.Wait(); err != nil { // a panic
		return err
	}
	var ended error
	for _, err := range errs {
		if _, lost := errors.AsType[*collective.Lost](err); err != nil && !lost {
			return err
		} else if ended == nil {
			ended = err
		}
	}
	return ended
}

// alone trains with one of the replicas.
func (r *runner) alone(rep *epoch.Replica, f func(rep *epoch.Replica) error) error {
	err := f(rep)
	if err != nil && rep.Group != r.group && !errors.Is(err, ranks.ErrStopped) {
		rep.Group.Fail(err)
	}
	return err
}
