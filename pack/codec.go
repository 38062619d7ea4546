package pack

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"diskgnn/internal/stage"
	"diskgnn/internal/units"
	"diskgnn/pack/cut"
	"diskgnn/pack/internal/table"
	"diskgnn/pack/packfile"
)

const (
	// samplePieces and sampleBytes bound the sample that auto compresses to compare codecs.
	samplePieces = 8
	sampleBytes  = 512 << 10
	// leastGain is the least ratio of loading speeds, compressed over plain, for which chunks are
	// compressed.
	leastGain = 1.05
	// decodeFor is the least time for which each codec is timed.
	decodeFor = 20 * time.Millisecond
)

// settleCodec chooses the codec of the chunks.
func (r *request) settleCodec(ctx context.Context) error {
	measure, err := r.knownCodec()
	if err != nil || !measure {
		return err
	}
	m, err := r.measureLoading(ctx)
	if err != nil {
		return fmt.Errorf("--compress-chunks auto: %w", err)
	}
	r.params.Codec = m.choose(runtime.GOMAXPROCS(0))
	r.rep.Logf("%s", m)
	return nil
}

// knownCodec settles the codec of the chunks if the options or the plan file name it. The choice
// of an earlier run, finished or not, is kept: measuring again might choose another. It reports
// whether the codec is to be measured.
func (r *request) knownCodec() (measure bool, err error) {
	if r.o.PlanFile != "" && !r.o.planning {
		plan, err := cut.ReadPlan(r.fs, r.o.PlanFile)
		if err != nil {
			return false, err
		}
		return false, plan.Adopt(r.o.PlanFile, r.samples.Fingerprint(), &r.params, words)
	}
	if r.params.Codec != CompressAuto {
		return false, nil
	}
	var specs []stage.Spec
	for _, r.params.Codec = range codecs {
		specs = append(specs, r.spec()) // shards do not measure
	}
	i, err := stage.Matching(r.fs, r.o.Out, specs)
	if err == nil && i >= 0 {
		r.params.Codec = codecs[i]
	}
	return i < 0, err
}

// codecMeasure is the size and the speed of a codec on a sample of rows.
type codecMeasure struct {
	codec  string
	ratio  float64 // stored bytes per byte of rows
	decode float64 // bytes of rows per second, on one core
}

// codecMeasures are the measurements from which the codec is chosen.
type codecMeasures struct {
	drive  float64 // bytes per second
	of     []codecMeasure
	chosen string
	gain   float64 // speed of the best codec over none
	cores  int
}

// choose returns the codec with the chunks that load fastest: they are read and decoded at the same
// time.
func (m *codecMeasures) choose(cores int) string {
	m.chosen, m.gain, m.cores = packfile.CodecNone, 1, cores
	best := leastGain
	for _, c := range m.of {
		gain := 1 / m.drive / max(c.ratio/m.drive, 1/(c.decode*float64(cores)))
		m.gain = max(m.gain, gain)
		if gain >= best {
			m.chosen, best = c.codec, gain
		}
	}
	return m.chosen
}

// String returns the choice and its reasons in one line.
func (m *codecMeasures) String() string {
	s := fmt.Sprintf("chunks: %s, ", m.chosen)
	if m.chosen == packfile.CodecNone {
		s += fmt.Sprintf("since compressed ones would load at most %.2f times as fast; ", m.gain)
	} else {
		s += fmt.Sprintf("which load %.2f times as fast as uncompressed ones; ", m.gain)
	}
	s += fmt.Sprintf("the drive reads %s", units.BytesPerSecond(m.drive))
	for _, c := range m.of {
		s += fmt.Sprintf(", %s keeps %.0f%% of the bytes and decodes %s on each of %d cores", c.codec, 100*c.ratio, units.BytesPerSecond(c.decode), m.cores)
	}
	return s
}

// measureLoading measures the inputs of the choice: the drive as for a plan, and the codecs.
func (r *request) measureLoading(ctx context.Context) (*codecMeasures, error) {
	effort := planEffort(r.facts.TableBytes)
	if !effort.Once() {
		r.rep.Logf("measuring the drive takes %s", units.Duration(effort.Total()))
	}
	source, err := r.ds.Features()
	if err != nil {
		return nil, err
	}
	name := source.Path()
	if err := source.Close(); err != nil {
		return nil, err
	}
	rate, err := r.readRate(ctx, name, effort)
	if err != nil {
		return nil, err
	}
	m := &codecMeasures{drive: rate.PerSecond}
	m.of, err = r.measureCodecs(ctx)
	return m, err
}

// measureCodecs reads samples of the table, as the pack will have it, and times them.
func (r *request) measureCodecs(ctx context.Context) ([]codecMeasure, error) {
	source, err := r.ds.Features()
	if err != nil {
		return nil, err
	}
	defer source.Close()
	f := r.ds.Facts()
	rows, err := table.New(source, r.stack, f.DType, r.params.DType, f.Dim, r.o.Workers)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	rb := int64(r.facts.RowBytes)
	n := min(max(sampleBytes/rb, 1), r.facts.Nodes)
	var samples [][]byte
	for i := range int64(samplePieces) {
		lo := (r.facts.Nodes - n) * i / (samplePieces - 1)
		piece := make([]byte, n*rb)
		if err := rows.Read(ctx, lo, lo+n, piece); err != nil {
			return nil, err
		}
		samples = append(samples, piece)
	}
	var of []codecMeasure
	for _, codec := range codecs[1:] {
		c, err := measureCodec(codec, samples)
		if err != nil {
			return nil, err
		}
		of = append(of, c)
	}
	return of, nil
}

// measureCodec compresses samples and times their decoding.
func measureCodec(codec string, samples [][]byte) (codecMeasure, error) {
	m := codecMeasure{codec: codec}
	e, err := packfile.NewFrameEncoder(codec)
	if err != nil {
		return m, err
	}
	d, err := packfile.NewFrameDecoder(codec, 1)
	if err != nil {
		return m, err
	}
	defer d.Close()
	var frames [][]byte
	rows, stored := 0, 0
	for _, s := range samples {
		frames = append(frames, e.Encode(nil, s))
		rows, stored = rows+len(s), stored+min(len(frames[len(frames)-1]), len(s))
	}
	m.ratio = float64(stored) / float64(max(rows, 1))
	out := make([]byte, len(samples[0]))
	bytes, began := 0, time.Now()
	for time.Since(began) < decodeFor {
		for _, f := range frames {
			if err := d.Decode(out, f); err != nil {
				return m, err
			}
		}
		bytes += rows
	}
	m.decode = float64(bytes) / time.Since(began).Seconds()
	return m, nil
}
