package residency

import "diskgnn/internal/binio"

// links is a doubly linked list of frames, from the newest to the oldest.
type links struct {
	newer, older []int32 // by frame; Absent at the ends; newer is unlinked for frames that are not members
	first, last  int32   // the newest and the oldest, or Absent
}

// unlinked marks a frame that is not a member.
const unlinked = int32(-2)

func newLinks(frames int) links {
	l := links{newer: make([]int32, frames), older: make([]int32, frames)}
	l.clear()
	return l
}

func listBytes(frames int) int64 { return 8 * int64(frames) }

func (l *links) bytes() int64 { return listBytes(len(l.newer)) }

func (l *links) clear() {
	for f := range l.newer {
		l.newer[f] = unlinked
	}
	l.first, l.last = Absent, Absent
}

// has reports whether a frame is a member.
func (l *links) has(f int32) bool { return l.newer[f] != unlinked }

// push adds a frame that is not a member as the newest.
func (l *links) push(f int32) {
	l.newer[f], l.older[f] = Absent, l.first
	if l.first == Absent {
		l.last = f
	} else {
		l.newer[l.first] = f
	}
	l.first = f
}

func (l *links) remove(f int32) {
	newer, older := l.newer[f], l.older[f]
	if newer == Absent {
		l.first = older
	} else {
		l.older[newer] = older
	}
	if older == Absent {
		l.last = newer
	} else {
		l.newer[older] = newer
	}
	l.newer[f] = unlinked
}

// save appends the members, newest first.
func (l *links) save(b []byte) []byte {
	for f := l.first; f != Absent; f = l.older[f] {
		b = append(b, byte(f), byte(f>>8), byte(f>>16), byte(f>>24))
	}
	return b
}

// load reads a list with every frame below n.
func (l *links) load(d *binio.Decoder, n int) {
	l.clear()
	members := d.Uints(nil, n, 4)
	for i := len(members) - 1; i >= 0; i-- {
		f := members[i]
		if int64(f) >= int64(n) || l.newer[f] != unlinked {
			d.Fail("a list of all %[2]d frames has frame %[1]d twice, or beyond its end", f, n)
			return
		}
		l.push(int32(f))
	}
}
