package uring

import "unsafe"

// Waking a ring's thread, and running functions on it.

// wake wakes the thread if it sleeps and has room for reads. It may be called from any goroutine.
func (r *ring) wake() bool {
	if !r.asleep.CompareAndSwap(true, false) {
		return false
	}
	r.kick()
	return true
}

var one = [8]byte{1, 1, 1, 1, 1, 1, 1, 1} // a number above 0 in any byte order

// kick makes the thread return from the kernel, now or the next time. After the ring is closed it has no
// effect.
func (r *ring) kick() { _, _ = r.event.Write(one[:]) }

// do runs f on the thread and waits for it. After the end of the ring it does nothing.
func (r *ring) do(f func()) {
	done := make(chan struct{})
	r.mu.Lock()
	if r.over {
		r.mu.Unlock()
		return
	}
	r.orders = append(r.orders, func() { f(); close(done) })
	r.mu.Unlock()
	r.kick()
	<-done
}

// obey runs the functions queued by do.
func (r *ring) obey() {
	r.mu.Lock()
	orders := r.orders
	r.orders = nil
	r.mu.Unlock()
	for _, f := range orders {
		f()
	}
}

// retire ends the ring unless functions are queued.
func (r *ring) retire() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = len(r.orders) == 0
	return r.over
}

// arm keeps a read of the eventfd in flight.
func (r *ring) arm() {
	if r.armed {
		return
	}
	r.armed = true
	e := r.queues.push()
	e.opcode, e.userData = opRead, wakeData
	e.fd, e.addr, e.length = int32(r.event.Fd()), uint64(uintptr(unsafe.Pointer(&r.count))), uint32(len(r.count))
}

// disarm ends the read of the eventfd, so that the kernel does not write to r later.
func (r *ring) disarm() {
	for r.armed && r.dead == nil {
		r.kick()
		r.enter()
		r.reap()
	}
}
