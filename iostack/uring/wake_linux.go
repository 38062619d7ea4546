package uring

import "unsafe"

// How a ring's thread is woken, and given functions to run.

// wake lets the thread go on if it sleeps though it has room. It may be called
// from any goroutine.
func (r *ring) wake() bool {
	if !r.asleep.CompareAndSwap(true, false) {
		return false
	}
	r.kick()
	return true
}

var one = [8]byte{1, 1, 1, 1, 1, 1, 1, 1} // a number above 0 in any byte order

// kick makes the thread return from the kernel, now or the next time. It fails
// when the ring is closed, and then nobody needs to.
func (r *ring) kick() { _, _ = r.event.Write(one[:]) }

// do runs f on the thread and waits for it. After the ring's end it runs nothing.
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

// obey runs the functions that the thread was given.
func (r *ring) obey() {
	r.mu.Lock()
	orders := r.orders
	r.orders = nil
	r.mu.Unlock()
	for _, f := range orders {
		f()
	}
}

// retire ends the ring unless there are orders left.
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

// disarm ends the read of the eventfd, lest the kernel writes to r later.
func (r *ring) disarm() {
	for r.armed && r.dead == nil {
		r.kick()
		r.enter()
		r.reap()
	}
}
