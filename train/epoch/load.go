package epoch

import (
	"context"
	"fmt"

	"diskgnn/featurestore"
	"diskgnn/internal/shard"
	"diskgnn/pipeline"
	"diskgnn/train/decide"
	"diskgnn/train/engine"
)

// Loading are batches that are loaded for a consumer outside of a run.
type Loading struct {
	Slots int
	Split featurestore.Split
	// Epochs is the number of times that the split's batches are loaded. Schedule has the order of training batches.
	Schedule decide.Schedule
	Epochs   int
	Batches  int // of an evaluation split
	From     int // items that were loaded before
	// Ranks is the number of consumers: batch k of an epoch is for consumer k mod Ranks. In the last step of an epoch,
	// consumers without a batch get the batches of the step once more, in turn: all get equally many. 0 is one consumer.
	Ranks int
	// Share is the part of each epoch's training batches: batch Index, and every Count-th after it. The parts are equally
	// long: one that ends early goes on with the first batches of the epoch. The zero value is all.
	Share shard.Shard

	// Work makes the memory in which a slot's batches are prepared.
	Work func(sl featurestore.Slot) (engine.Work, error)
	// Made is called once all slots are made, before a batch is loaded.
	Made func() error
	// Hand gives a batch to some of the consumers, as the number-th of their items. Use returns when they have used
	// it. Both are called in the order of the items; Use runs on the goroutine of Load.
	Hand func(ctx context.Context, w engine.Work, sl featurestore.Slot, number int, ranks []int) error
	Use  func(ctx context.Context, w engine.Work) error
}

// PerEpoch returns the number of items of an epoch, for each consumer.
func (l *Loading) PerEpoch() int {
	if l.Split != featurestore.Train {
		return l.Batches
	}
	count := max(1, l.Share.Count, l.Ranks)
	return (l.Schedule.PerEpoch + count - 1) / count
}

// before returns the number of batches that were loaded before, for several consumers.
func (l *Loading) before() int {
	each, per := l.PerEpoch(), l.Schedule.PerEpoch
	return l.From/each*per + min(l.From%each*l.Ranks, per)
}

// takers returns the consumers of an item, and its number among their items.
func (l *Loading) takers(item int) (number int, ranks []int) {
	if l.Ranks <= 1 {
		return item, []int{0}
	}
	each, per := l.PerEpoch(), l.Schedule.PerEpoch
	epoch, k := (item+l.before())/per, (item+l.before())%per
	step, stride := k/l.Ranks, l.Ranks
	if step == each-1 {
		stride = per - step*l.Ranks
	}
	for rank := k % l.Ranks; rank < l.Ranks; rank += stride {
		ranks = append(ranks, rank)
	}
	return epoch*each + step - l.From, ranks
}

// items returns the number of items, the batch of each, and its name in errors.
func (l *Loading) items() (n int, ref func(item int) featurestore.Ref, label func(item int) string) {
	s := newSchedule(l.Schedule)
	if l.Split == featurestore.Train {
		count, each, first := max(1, l.Share.Count), l.PerEpoch(), l.From
		if l.Ranks > 1 {
			each, first = s.PerEpoch, l.before()
		}
		at := func(item int) (epoch, batch int) {
			epoch, k := (item+first)/each, (item+first)%each
			return epoch, s.number(epoch, (k*count+l.Share.Index)%s.PerEpoch)
		}
		ref = func(item int) featurestore.Ref {
			_, batch := at(item)
			return featurestore.Ref{Split: l.Split, Index: batch}
		}
		label = func(item int) string {
			epoch, batch := at(item)
			return fmt.Sprintf("epoch %d, batch %d", epoch, batch)
		}
		return l.Epochs*each - first, ref, label
	}
	ref = func(item int) featurestore.Ref {
		return featurestore.Ref{Split: l.Split, Index: (item + l.From) % l.Batches}
	}
	return l.Epochs*l.Batches - l.From, ref, func(item int) string { return fmt.Sprintf("evaluation batch %d", ref(item).Index) }
}

// First returns the training batch for which the store is to be filled.
func (l *Loading) First() int {
	if l.Split != featurestore.Train {
		return 0
	}
	_, ref, _ := l.items()
	return ref(0).Index
}

// Load loads the batches, in order, until the last one, an error, or the end of ctx. The error of a batch ends it in the
// batch's place: all batches before it are handed out.
func (r *Replica) Load(ctx context.Context, l *Loading) error {
	n, ref, label := l.items()
	slots, err := r.newSlots(l.Slots, l.Split != featurestore.Train, l.Work)
	if err != nil {
		return err
	}
	if err := l.Made(); err != nil {
		freeAll(slots)
		return err
	}
	links := loadingLinks(ref, len(slots))
	turn := len(links)
	links = append(links, pipeline.Link[*Slot]{Name: linkHand, Do: func(ctx context.Context, sl *Slot, item int) error {
		number, ranks := l.takers(item)
		return l.Hand(ctx, sl.work, sl.Slot, number, ranks)
	}}, pipeline.Link[*Slot]{Name: linkConsume, Do: func(ctx context.Context, sl *Slot, _ int) error { return l.Use(ctx, sl.work) }})
	p, err := pipeline.Start(ctx, pipeline.Config[*Slot]{Links: links, Slots: slots, Items: n, Label: label, Abort: drain, Free: free, Turn: turn})
	if err != nil {
		freeAll(slots)
		return err
	}
	defer p.Close()
	return p.Run(n)
}
