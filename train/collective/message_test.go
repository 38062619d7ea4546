package collective

import (
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"
)

// opposite is a group of one rank whose only peer is the test.
func opposite(t *testing.T, rank int, limits Limits) (*Group, *peer) {
	t.Helper()
	here, there := net.Pipe()
	g := newGroup(rank, 2, []*peer{newPeer(1-rank, "", here)}, limits)
	p := newPeer(rank, "", there)
	return g, p
}

// silentBeats are limits under which a group says nothing by itself.
func silentBeats() Limits {
	l := quick
	l.Beat, l.Drain = time.Hour, 10*time.Millisecond
	return l
}

// awaits waits until something is so.
func awaits(t *testing.T, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !so(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// A message that claims more than its call may have ends the group before a byte of it is read,
// whether the call waits or comes later; so does a second one for a call that is over.
func TestMessageBound(t *testing.T) {
	const most = 1 << 20
	for what, c := range map[string]struct {
		length int64
		first  bool // the call, before the message
		why    string
	}{
		"one byte too many":             {8 + most + 1, true, "a message has 1048577 bytes, more than the 1048576 allowed"},
		"a tebibyte":                    {1 << 40, true, "a message has 1099511627768 bytes, more than the 1048576 allowed"},
		"a tebibyte that nobody awaits": {1 << 40, false, "a message has 1099511627768 bytes, more than the 1048576 allowed"},
		"no number":                     {7, true, "a message of 7 bytes"},
	} {
		t.Run(what, func(t *testing.T) {
			g, p := opposite(t, 0, silentBeats())
			defer g.Close()
			sent := make(chan error, 1)
			send := func() {
				head := append(forged(message, c.length), make([]byte, min(c.length, 8))...)
				_, err := p.conn.Write(head[:min(len(head), headerBytes+int(c.length))])
				sent <- err
				_, _ = p.conn.Read(make([]byte, 1<<10)) // that it is lost
			}
			if !c.first {
				go send()
				awaits(t, "the reader holds the message", g.peers[0].held.Load)
			} else {
				go func() {
					awaits(t, "the call waits", func() bool { return g.peers[0].expected.Load() != nil })
					send()
				}()
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := g.Gather(nil, most)
			runtime.ReadMemStats(&after)
			if err == nil || !strings.Contains(err.Error(), c.why) {
				t.Errorf("%v, want %s", err, c.why)
			}
			if n := after.TotalAlloc - before.TotalAlloc; n > most/2 {
				t.Errorf("%d bytes were taken", n)
			}
			p.conn.Close()
		})
	}
}

// A small message is read before its call, and refused by it when that wants a smaller one.
func TestMessageOfAnotherCall(t *testing.T) {
	g, p := opposite(t, 0, silentBeats())
	defer g.Close()
	go func() {
		_ = p.send(message, make([]byte, 8), make([]byte, 2))
		_, _ = p.conn.Read(make([]byte, 1<<10))
	}()
	awaits(t, "the message is there", func() bool { return len(g.peers[0].inbox) == 1 })
	if _, err := g.Gather(nil, 1); err == nil || !strings.Contains(err.Error(), "message has 2 bytes, more than the 1 allowed") {
		t.Error(err)
	}
	p.conn.Close()
}

// A large message for an earlier call is refused before it is read.
func TestMessageOfAnEarlierCall(t *testing.T) {
	g, p := opposite(t, 0, silentBeats())
	defer g.Close()
	g.number = 3
	g.peers[0].expect(3, 1<<30)
	go func() {
		_, _ = p.conn.Write(append(forged(message, 8+mostUnasked), make([]byte, 8)...)) // number 0
		_, _ = p.conn.Read(make([]byte, 1<<10))
	}()
	<-g.Context().Done()
	if err := g.Lost(); !strings.Contains(err.Error(), "for a call that is over") {
		t.Error(err)
	}
	p.conn.Close()
}

// A large message for a later call says that the one for this call never comes: frames are in order.
func TestMessageOfALaterCall(t *testing.T) {
	g, p := opposite(t, 0, silentBeats())
	defer g.Close()
	defer p.conn.Close()
	go func() {
		head := append(forged(message, 8+mostUnasked), make([]byte, 8)...)
		head[headerBytes] = 1 // its number
		_, _ = p.conn.Write(head)
		_, _ = p.conn.Read(make([]byte, 1<<10))
	}()
	if _, err := g.Gather(nil, 1<<30); err == nil || !strings.Contains(err.Error(), "another call") {
		t.Error(err)
	}
}

// A large message for a later call is refused, too, when the calls before the one that waits are over.
func TestMessageOfALaterCallAfterOthers(t *testing.T) {
	g, p := opposite(t, 0, silentBeats())
	defer g.Close()
	defer p.conn.Close()
	go func() {
		_ = p.send(message, make([]byte, 8)) // number 0
		head := append(forged(message, 8+mostUnasked), make([]byte, 8)...)
		head[headerBytes] = 2 // its number
		_, _ = p.conn.Write(head)
		_, _ = p.conn.Read(make([]byte, 1<<10))
	}()
	if _, err := g.Gather(nil, 1<<30); err != nil {
		t.Fatal(err)
	}
	refused := make(chan error, 1)
	go func() {
		_, err := g.Gather(nil, 1<<30)
		refused <- err
	}()
	select {
	case err := <-refused:
		if err == nil || !strings.Contains(err.Error(), "another call") {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the call waits for a message that never comes")
	}
}

// A rank does not send what the others refuse.
func TestMessageTooLong(t *testing.T) {
	groups := Local(2, quick)
	defer closeAll(groups)
	if _, err := groups[1].Gather(make([]byte, 2), 1); err == nil || groups[1].Lost() != nil {
		t.Error(err)
	}
	if _, err := groups[0].Broadcast(make([]byte, 2), 1); err == nil || groups[0].Lost() != nil {
		t.Error(err)
	}
}

// Large messages that come long before their calls wait for them, each with its own bound.
func TestMessagesAhead(t *testing.T) {
	groups := Local(2, quick)
	defer closeAll(groups)
	sizes := []int{2 * mostUnasked, 1, 3 * mostUnasked, mostUnasked - 8, mostUnasked - 7}
	errs := each(groups, func(g *Group) error {
		if g.Rank() == 0 {
			awaits(t, "rank 0 holds a message", g.peers[0].held.Load)
		}
		for _, n := range sizes {
			b := make([]byte, n)
			b[n-1] = 7
			all, err := g.Gather(b, int64(n))
			if err != nil {
				return err
			}
			if g.Rank() == 0 && (len(all[1]) != n || all[1][n-1] != 7) {
				return errors.New("another message came")
			}
		}
		return nil
	})
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
}

// A rank whose reader waits for its own calls does not take the others for silent.
func TestHeldIsNotSilence(t *testing.T) {
	for what, send := range map[string]func(p *peer){
		"a large message": func(p *peer) { _, _ = p.conn.Write(append(forged(message, 1<<20), make([]byte, 8)...)) },
		"many small ones": func(p *peer) {
			for range cap(p.inbox) + 1 {
				_ = p.send(message, make([]byte, 8))
			}
		},
		"contributions": func(p *peer) {
			for range 2 {
				_ = p.send(contribution, make([]byte, contributionHead+4))
			}
			_, _ = p.conn.Write(forged(contribution, contributionHead+4))
		},
	} { // each returns once the reader has everything, of which the last waits
		g, p := opposite(t, 0, silentBeats())
		g.prepare(&step{elements: 1, batches: 9}, 2)
		send(p)
		awaits(t, what, g.peers[0].held.Load)
		g.look(time.Now().Add(time.Hour))
		if err := g.Lost(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		p.conn.Close()
		g.Fail(errors.New("enough"))
		g.Close()
	}
}

// When the reader has waited for this rank, the silence of the other one begins anew.
func TestSilenceBeginsAnew(t *testing.T) {
	p := newPeer(1, "", nil)
	p.heard.Store(0)
	if end := p.hold(); !p.held.Load() {
		t.Error("the reader does not wait")
	} else {
		end()
	}
	if p.held.Load() || p.heard.Load() == 0 {
		t.Error("a peer that was not listened to is silent")
	}
}

// By hand: messages of up to 64 KiB, with their number, are read before their calls; larger ones wait.
func TestUnasked(t *testing.T) {
	g, p := opposite(t, 0, silentBeats())
	_ = p.send(message, make([]byte, 65536))
	awaits(t, "the message is there", func() bool { return len(g.peers[0].inbox) == 1 })
	if m := <-g.peers[0].inbox; len(m.bytes) != 65528 {
		t.Errorf("%d bytes", len(m.bytes))
	}
	_, _ = p.conn.Write(append(forged(message, 65537), make([]byte, 8)...))
	awaits(t, "the reader holds the message", g.peers[0].held.Load)
	if n := len(g.peers[0].inbox); n != 0 {
		t.Errorf("%d messages", n)
	}
	p.conn.Close()
	g.Fail(errors.New("enough"))
	g.Close()
}

// A rank that ends is noticed at once, also while no call waits for it.
func TestNoticedWithoutCall(t *testing.T) {
	g, p := opposite(t, 0, silentBeats())
	defer g.Close()
	p.conn.Close()
	<-g.Context().Done()
	if err := g.Lost(); err == nil || !strings.Contains(err.Error(), "rank 1 of 2") {
		t.Error(err)
	}
}

// A group ends though another rank takes nothing that is sent to it.
func TestEndsBesideOneThatHangs(t *testing.T) {
	g, p := opposite(t, 0, silentBeats())
	defer p.conn.Close()
	g.Fail(errors.New("the disk is full"))
	ended := make(chan struct{})
	go func() { g.Close(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Error("it waits for the other one")
	}
}

// A rank speaks for itself alone, and of the run of those that it tells.
func TestTellsForItself(t *testing.T) {
	for rank, want := range []string{"rank 1 of 2 is lost: it burns", "rank 7 of 2 (there) is lost: it burns"} {
		g, p := opposite(t, rank, silentBeats())
		_ = p.send(lost, []byte(`{"Rank": 7, "World": 9, "Address": "there", "Why": "it burns"}`))
		<-g.Context().Done()
		if err := g.Lost(); fmt.Sprint(err) != want {
			t.Errorf("rank %d: %v, want %s", rank, err, want)
		}
		p.conn.Close()
		g.Close()
	}
}
