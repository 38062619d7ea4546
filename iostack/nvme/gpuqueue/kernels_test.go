package gpuqueue_test

import (
	_ "embed"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"diskgnn/device/cuda"
	"diskgnn/device/cuda/kernels"
	"diskgnn/internal/binio"
	"diskgnn/iostack/nvme"
	"diskgnn/iostack/nvme/gpuqueue"
	"diskgnn/iostack/nvme/spec"
)

// source is what the kernels are built from. The test's binary runs from anywhere.
//
//go:embed queue.cu
var source string

// What the kernels take for granted is what layout.go says.
func TestKernelsAgree(t *testing.T) {
	var names []string
	for _, m := range regexp.MustCompile(`__global__ void (?:__launch_bounds__\(\w+\) )?(\w+)\(`).FindAllStringSubmatch(source, -1) {
		names = append(names, m[1])
	}
	var want []string
	for _, f := range gpuqueue.Code.Functions {
		want = append(want, f.Name)
	}
	if !slices.Equal(names, want) {
		t.Errorf("queue.cu has %v, Code %v", names, want)
	}
	for name, want := range map[string]uint64{
		"READ": spec.Read, "PAGE": nvme.Page, "DRIVES": gpuqueue.MaxDrives, "QUEUES": gpuqueue.MaxQueues, "BIN_BLOCKS": gpuqueue.BinBlocks,
		"BUSY": gpuqueue.SlotBusy, "DONE": gpuqueue.SlotDone, "FREE": gpuqueue.SlotFree, "TIMEOUT": uint64(gpuqueue.StatusTimeout),
		"ABORTED": uint64(gpuqueue.StatusAborted), "PROTOCOL": uint64(gpuqueue.StatusProtocol), "REFUSED": uint64(gpuqueue.StatusRefused),
	} {
		m := regexp.MustCompile(`constexpr [^;]*\b` + name + ` = (\d+)u?(?: << (\d+))?[,;]`).FindStringSubmatch(source)
		if m == nil {
			t.Errorf("queue.cu has no %s", name)
			continue
		}
		v, _ := strconv.ParseUint(m[1], 10, 64)
		shift, _ := strconv.Atoi(m[2])
		if v<<shift != want {
			t.Errorf("queue.cu: %s is %d, want %d", name, v<<shift, want)
		}
	}
	fields := regexp.MustCompile(`(?s)struct Queue \{(.*?)\};`).FindStringSubmatch(source)[1]
	fields = regexp.MustCompile(`[a-z0-9]+ \*|\bu64 |const |unsigned char|u32|\*|\s|\[5\]`).ReplaceAllString(fields, "")
	order := strings.Split(strings.ReplaceAll(strings.TrimSuffix(fields, ";"), ";", ","), ",")
	for name, at := range map[string]int{
		"sq": gpuqueue.WordSQ, "cq": gpuqueue.WordCQ, "submission": gpuqueue.WordSubmission, "completion": gpuqueue.WordCompletion,
		"data": gpuqueue.WordData, "pages": gpuqueue.WordPages, "states": gpuqueue.WordStates, "depth": gpuqueue.WordDepth,
		"tail": gpuqueue.WordTail, "head": gpuqueue.WordHead, "dead": gpuqueue.WordDead, "reserved": gpuqueue.QueueWords - 5,
	} {
		if i := slices.Index(order, name); i != at {
			t.Errorf("queue.cu: %s is field %d of %v, want %d", name, i, order, at)
		}
	}
}

// Chunks that a ticket brought are checked by the checksum kernel on the same stream, without
// a wait of the host's between.
func TestChecksums(t *testing.T) {
	onDevices(t, func(t *testing.T, d *cuda.Device) {
		w := newWorld(t, d, setup{drives: 2, nvme: nvme.Options{Queues: 2, Depth: 16}, array: gpuqueue.Options{RequestBytes: 65536}})
		const chunk, n = 65536, 12
		r := &reads{want: make([]byte, n*chunk)}
		var ranges []uint64
		var sums []uint32
		for i := range n {
			at := w.rnd.IntN(driveBytes/512-chunk/512) + i%2*driveBytes/512
			r.requests = append(r.requests, gpuqueue.Request{Block: uint64(at), Offset: uint64(i * chunk), Blocks: chunk / 512})
			ranges = append(ranges, uint64(i*chunk), chunk)
			sums = append(sums, binio.CRC(w.content[at*512:][:chunk]))
		}
		w.set(r, r.requests)
		sum := kernels.Checksum{Sums: put(w, make([]uint32, n)), Data: r.To, Ranges: put(w, ranges), Rows: kernels.Rows(n)}
		var ticket gpuqueue.Ticket
		check(t, w.array.Submit(&ticket, r.Reads, w.streams[0]))
		check(t, w.array.Complete(&ticket, w.streams[0]))
		check(t, sum.Launch(w.streams[0]))
		if got := get[uint32](w, sum.Sums); !slices.Equal(got, sums) {
			t.Errorf("checksums %x, want %x", got, sums)
		}
		check(t, w.array.End(&ticket))
	})
}
