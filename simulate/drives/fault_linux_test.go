package drives

import (
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"diskgnn/internal/rng"
)

// processor returns the time for which processors worked for this process.
func processor() int64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// BenchmarkFault measures what the software of mmap costs, page by page in random order: a
// fault that reads the drive, and copying a page that is mapped, which is a touch. The
// processor's time (cpu-ns/op) is the software's: waiting for the drive is not in it.
func BenchmarkFault(b *testing.B) {
	const pages, page = 1 << 15, 4096
	name := filepath.Join(b.TempDir(), "pages")
	content := make([]byte, pages*page)
	for i := range content {
		content[i] = byte(i)
	}
	if err := os.WriteFile(name, content, 0o600); err != nil {
		b.Fatal(err)
	}
	fd, err := unix.Open(name, unix.O_RDONLY, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Fsync(fd); err != nil {
		b.Fatal(err)
	}
	order := make([]uint32, pages)
	for i := range order {
		order[i] = uint32(i)
	}
	r := rng.New(1)
	rng.Shuffle(&r, order)
	row := make([]byte, page)
	mapped := func(b *testing.B) []byte {
		m, err := unix.Mmap(fd, 0, pages*page, unix.PROT_READ, unix.MAP_SHARED)
		if err == nil {
			err = unix.Madvise(m, unix.MADV_RANDOM)
		}
		if err != nil {
			b.Fatal(err)
		}
		return m
	}
	b.Run("fault", func(b *testing.B) {
		var m []byte
		setup, began := int64(0), processor()
		for i := range b.N {
			if i%pages == 0 {
				b.StopTimer()
				aside := processor()
				if m != nil {
					unix.Munmap(m)
				}
				if err := unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED); err != nil {
					b.Fatal(err)
				}
				m = mapped(b)
				setup += processor() - aside
				b.StartTimer()
			}
			at := int(order[i%pages]) * page
			copy(row, m[at:at+page])
		}
		b.ReportMetric(float64(processor()-began-setup)/float64(b.N), "cpu-ns/op")
		unix.Munmap(m)
	})
	b.Run("touch", func(b *testing.B) {
		m := mapped(b)
		defer unix.Munmap(m)
		sum := byte(0)
		for i := range pages {
			sum += *(*byte)(unsafe.Pointer(&m[i*page]))
		}
		b.ResetTimer()
		began := processor()
		for i := range b.N {
			at := int(order[i%pages]) * page
			copy(row, m[at:at+page])
		}
		b.ReportMetric(float64(processor()-began)/float64(b.N), "cpu-ns/op")
		_ = sum
	})
}
