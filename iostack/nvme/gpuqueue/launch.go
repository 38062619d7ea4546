package gpuqueue

import (
	"diskgnn/device/cuda"
)

// Code is the code of the kernels. Open loads it into the device.
var Code = cuda.Code{Image: image, Functions: []cuda.Function{
	countFunction: {File: "queue", Name: "nvme_count"}, placeFunction: {File: "queue", Name: "nvme_place"},
	submitFunction: {File: "queue", Name: "nvme_submit"}, completeFunction: {File: "queue", Name: "nvme_complete"},
	readFunction: {File: "queue", Name: "nvme_read"},
}}

const (
	countFunction = iota
	placeFunction
	submitFunction
	completeFunction
	readFunction
)

// Threads of a block of the kernels.
const (
	binThreads      = 256 // which the kernels' constants are made for
	submitThreads   = 512
	completeThreads = 512
	readThreads     = 1024 // at most: one a slot
)

// bin launches the kernels that sort a micro-batch's requests by drive.
func (a *Array) bin(b *batch, s *cuda.Stream) error {
	requests := func(l *cuda.Launch) {
		l.Buffer("the requests", b.in.Requests, RequestBytes*int64(b.in.Count.Most))
		l.Int(len(a.drives))
		l.Word(a.perDrive)
		l.Int(a.o.RequestBytes >> a.shift)
		l.Int(a.shift)
		l.Word(uint64(b.in.To.Bytes()))
		l.Optional("the number of requests", b.in.Count.At, 4)
		l.Int(b.in.Count.Most)
	}
	l := s.Launch("count requests by drive")
	l.Buffer("the counts", b.counts, 4*int64(BinBlocks*len(a.drives)))
	requests(&l)
	if err := l.Run(a.functions[countFunction], cuda.Dims{BinBlocks, 1}, cuda.Dims{binThreads, 1}); err != nil {
		return err
	}
	l = s.Launch("bin requests by drive")
	l.Buffer("the order", b.order, 4*int64(b.in.Count.Most))
	l.Buffer("the starts", b.starts, 4*int64(len(a.drives)+1))
	l.Buffer("the statuses", b.in.Status, 4*int64(b.in.Count.Most))
	l.Buffer("the outcomes", b.outcomes, 8*int64(a.outcomes()))
	l.Buffer("the counts", b.counts, 4*int64(BinBlocks*len(a.drives)))
	requests(&l)
	return l.Run(a.functions[placeFunction], cuda.Dims{BinBlocks, 1}, cuda.Dims{binThreads, 1})
}

// work adds the arguments of all kernels that drive queues.
func (a *Array) work(l *cuda.Launch, b *batch) {
	l.Buffer("the queues", a.queues, 8*QueueWords*int64(a.count()))
	l.Int(len(a.drives))
	l.Int(a.per)
	l.Buffer("the requests", b.in.Requests, RequestBytes*int64(b.in.Count.Most))
	l.Buffer("the order", b.order, 4*int64(b.in.Count.Most))
	l.Buffer("the starts", b.starts, 4*int64(len(a.drives)+1))
}

// land adds the destinations of data and outcomes, and the time limit.
func (a *Array) land(l *cuda.Launch, b *batch) {
	l.Buffer("the destination", b.in.To, 0)
	l.Buffer("the statuses", b.in.Status, 4*int64(b.in.Count.Most))
	l.Buffer("the outcomes", b.outcomes, 8*int64(a.outcomes()))
	l.Int(a.slotBytes)
	l.Int(a.shift)
	l.Word(uint64(a.o.Timeout.Nanoseconds()))
	l.Buffer("the control block", a.control, 4*ControlWords)
}

func (a *Array) submit(b *batch, s *cuda.Stream) error {
	l := s.Launch("submit reads")
	a.work(&l, b)
	l.Int(b.base)
	l.Word(a.perDrive)
	l.Word(uint64(a.namespace))
	l.Int(a.shift)
	return l.Run(a.functions[submitFunction], cuda.Dims{1, 1}, cuda.Dims{submitThreads, 1})
}

func (a *Array) complete(b *batch, s *cuda.Stream) error {
	l := s.Launch("complete reads")
	a.work(&l, b)
	l.Int(b.base)
	a.land(&l, b)
	return l.Run(a.functions[completeFunction], cuda.Dims{uint32(min(a.o.CompleteBlocks, a.count())), 1}, cuda.Dims{completeThreads, 1})
}

func (a *Array) read(b *batch, s *cuda.Stream) error {
	l := s.Launch("read")
	a.work(&l, b)
	a.land(&l, b)
	l.Word(a.perDrive)
	l.Word(uint64(a.namespace))
	threads := min((a.depth-1+31)/32*32, readThreads)
	return l.Run(a.functions[readFunction], cuda.Dims{uint32(a.count()), 1}, cuda.Dims{uint32(threads), 1})
}
