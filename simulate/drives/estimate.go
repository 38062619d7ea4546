package drives

import (
	"math"

	"diskgnn/simulate/kernel"
)

// demand is the time for which batches occupy each part of a machine, in seconds.
type demand struct {
	sample, assemble, compute, threads, flight, link float64

	drives float64 // for one drive; several drives divide it
	// serial is the time of batches one after another, without overlap; first and last are a batch's
	// times before and after it is assembled.
	serial, first, last float64
}

// of returns the demand of one batch.
func (m *Machine) of(l *Load) demand {
	d := demand{sample: l.Sample.Seconds(), assemble: l.Assemble.Seconds(), compute: l.Compute.Seconds()}
	cost, delay := micros(m.Software.CostMicros).Seconds(), m.Drive.delay().Seconds()
	link := func(bytes int64) float64 { return kernel.Rate(m.Link).For(bytes).Seconds() }
	n, bytes := l.Requests()
	fastest := 0.0 // time of the fastest request
	busiest := 0.0 // time of the busiest drive, if requests of each size are spread evenly
	for _, r := range l.Reads {
		service := m.Drive.service(r.Bytes).Seconds()
		lasts := cost + service + delay
		if l.Direct {
			lasts += link(r.Bytes)
		}
		if r.Count > 0 && (fastest == 0 || lasts < fastest) {
			fastest = lasts
		}
		each := (r.Count + int64(m.Drives) - 1) / int64(m.Drives)
		busiest = max(busiest, float64(each)*service)
		d.drives += float64(r.Count) * service
		d.flight += float64(r.Count) * lasts / float64(m.Software.inFlight())
	}
	touch := m.Software.TouchMicros / 1e6 * float64(l.Touched)
	if n > 0 { // touches are part of the cost of requests
		d.flight += touch / float64(m.Software.inFlight())
	}
	d.threads = (float64(n)*cost + touch) / float64(m.Software.Threads)
	copied, direct := link(l.Copy), link(l.Zero)
	if l.Direct {
		direct += link(bytes)
	}
	d.link = copied + direct
	// Reading ends when the last request of the busiest part has passed the other parts.
	reading := max(d.flight, direct)
	if n > 0 {
		reading = max(reading, cost+max(d.drives/float64(m.Drives), busiest)+delay, d.threads+fastest-cost)
	} else {
		reading = max(reading, d.threads)
	}
	d.first, d.last = d.sample+reading, copied+d.compute
	d.serial = d.first + d.assemble + d.last
	return d
}

// Estimate returns the seconds that the loads take on a machine: the time of its busiest part, plus the
// other parts before its first batch and after its last, or the bound by the number of slots. Run returns
// more, because requests queue; the difference is small for large batches.
func Estimate(loads []Load, m Machine) float64 {
	var d demand
	if len(loads) == 0 {
		return 0
	}
	// The shortest times of a batch for sampling, assembling and computing.
	before, assembled, after := math.Inf(1), math.Inf(1), math.Inf(1)
	unsampled, uncomputed := math.Inf(1), math.Inf(1)
	first, last := math.Inf(1), math.Inf(1) // the shortest times before and after assembling
	for i := range loads {
		one := m.of(&loads[i])
		d.sample += one.sample
		d.assemble += one.assemble
		d.compute += one.compute
		d.threads += one.threads
		d.flight += one.flight
		d.link += one.link
		d.drives += one.drives
		d.serial += one.serial
		before, assembled, after = min(before, one.sample), min(assembled, one.assemble), min(after, one.compute)
		first, last = min(first, one.first), min(last, one.last)
		unsampled, uncomputed = min(unsampled, one.serial-one.sample), min(uncomputed, one.serial-one.compute)
	}
	reading := before + max(max(d.threads, d.flight, d.drives/float64(m.Drives))+assembled, d.link) + after
	return max(reading, d.sample+unsampled, d.assemble+first+last, d.compute+uncomputed, d.serial/float64(m.Slots))
}

// Enough returns the smallest number of drives for which no larger number makes the loads more than 5 %
// faster, by Estimate: the number that this GPU, link and software can use.
func Enough(loads []Load, m Machine) int {
	m.Drives = MaxDrives
	least := Estimate(loads, m)
	lo, hi := 1, MaxDrives // more drives never increase Estimate
	for lo < hi {
		m.Drives = (lo + hi) / 2
		if Estimate(loads, m) <= 1.05*least {
			hi = m.Drives
		} else {
			lo = m.Drives + 1
		}
	}
	return lo
}

// longest bounds a simulation, in seconds of virtual time: the clock reaches 106 days.
const longest = 100 * 86400

// serial bounds the time of a run from above, with one request at a time, in seconds.
func serial(loads []Load, m Machine) (s float64) {
	m.Drives, m.Software.InFlight, m.Software.Threads = 1, 1, 1
	for i := range loads {
		d := m.of(&loads[i])
		s += d.sample + d.assemble + d.compute + d.threads + d.flight + d.link
	}
	return s
}
