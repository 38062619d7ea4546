// Package kernel is a discrete-event simulator, with virtual time in whole picoseconds, a queue of events,
// and resources that events wait for.
//
//	for s.Next(&e) {
//		switch e.Kind { … s.After(delay, Event{…}) … }
//	}
//
// A model is a loop over a switch. Events are values of 32 bytes with a kind and two numbers, so a simulation
// allocates nothing once its queues have grown. Events at the same time come in the order in which they were
// scheduled, so the same model always gives the same run.
//
// There are two kinds of resource. A Server serves jobs on k equal servers; the duration of a job is known
// when it arrives, as for a link or a controller. A Pool lends units that the model returns later, such as
// the slots of a queue or the buffers of a die. Both serve in order of arrival.
//
// Durations are rounded to picoseconds once, by Rate.For and FromSeconds; all other arithmetic is exact. Two
// goroutines must not use the same value at the same time; sweeps run one simulation in each goroutine.
package kernel
