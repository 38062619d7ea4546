// Package kernel is a discrete-event simulator: virtual time in whole picoseconds, a queue
// of events, and the resources that events wait for.
//
//	for s.Next(&e) {
//		switch e.Kind { … s.After(delay, Event{…}) … }
//	}
//
// A model is a loop over a switch: events are values of 32 bytes with a kind and two numbers, so
// that a simulation allocates nothing once its queues have grown. Events of one time come in the
// order in which they were scheduled, whatever else is queued: the same model always gives the same
// run.
//
// There are two kinds of resource. A Server works on one job after another, by k servers, each for a
// duration that is known when the job arrives: a link, a controller. A Pool lends units that the
// model gives back when it is done with them: the slots of a queue, the buffers of a die. Both serve
// in order of arrival and count their jobs.
//
// A duration is rounded to picoseconds once, where a job is given to a server (Rate); all
// else is exact. Nothing here may be used by two goroutines at once; sweeps run one
// simulation in each.
package kernel
