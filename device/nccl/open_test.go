//go:build linux && (amd64 || arm64)

package nccl

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// source is a library of one rank: its sums are what they were, and of an all-reduce of 13
// elements nothing is heard any more.
const source = `
#include <stddef.h>
#include <string.h>
typedef struct { size_t size; unsigned magic, version; int blocking; } config;
static int made, hangs, asked;
static char id[128];
int ncclGetVersion(int *v) { *v = VERSION; return 0; }
int ncclGetUniqueId(char *to) { for (int i = 0; i < 128; i++) to[i] = id[i] = 'a' + i % 26; return 0; }
#ifndef LACKS
int ncclCommInitRankScalable(void **c, int n, int rank, int ids, char *of, config *o) {
	if (n != 2 || rank != 1 || ids != 1 || memcmp(of, id, 128) || o->size != 24 || o->magic != 0xcafebeef || o->version != 21400 || o->blocking) return 4;
	*c = &made;
	return 7;
}
#endif
int ncclCommGetAsyncError(void *c, int *state) {
	if (c != &made) return 4;
	*state = hangs || asked++ < 3 ? 7 : 0;
	return 0;
}
int ncclAllReduce(const void *from, void *to, size_t count, int type, int op, void *c, void *stream) {
	if (from != to || type != 7 || op || c != &made || !stream) return 4;
	hangs = count == 13;
	return hangs ? 7 : 0;
}
int ncclBroadcast(const void *from, void *to, size_t count, int type, int root, void *c, void *stream) {
	return from == to && count == 52 && type == 1 && root == 1 && c == &made && stream ? 0 : 4;
}
int ncclCommAbort(void *c) { return c == &made ? 0 : 4; }
int ncclCommFinalize(void *c) { return c == &made ? 0 : 4; }
int ncclCommDestroy(void *c) { return c == &made ? 0 : 4; }
const char *ncclGetLastError(void *c) { return c == &made && hangs ? "the other rank is silent\n" : ""; }
`

// compile makes a shared object of the source.
func compile(t *testing.T, flags ...string) string {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler")
	}
	dir := t.TempDir()
	c, so := filepath.Join(dir, "fake.c"), filepath.Join(dir, "libnccl.so.2")
	if err := os.WriteFile(c, []byte(source), 0o666); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(cc, append(flags, "-shared", "-fPIC", "-o", so, c)...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return so
}

// TestLibrary calls a library by its addresses.
func TestLibrary(t *testing.T) {
	a, err := open([]string{filepath.Join(t.TempDir(), "none.so"), compile(t, "-DVERSION=23007")})
	if err != nil {
		t.Fatal(err)
	}
	l, err := checked(a)
	if err != nil {
		t.Fatal(err)
	}
	id, err := l.NewID()
	if err != nil || id[0] != 'a' || id[127] != 'a'+127%26 {
		t.Fatalf("%v, %v", id, err)
	}
	clock := new(ticking)
	c, err := l.Join(t.Context(), id, 2, 1, Options{Patience: time.Second, Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	s, x := stream(t, 52)
	if err := errors.Join(c.AllReduce(t.Context(), s, x.Slice(0, 8)), c.Broadcast(t.Context(), s, x, 1)); err != nil {
		t.Fatal(err)
	}
	err = c.AllReduce(t.Context(), s, x)
	if !errors.Is(err, ErrDeadline) || !strings.HasSuffix(err.Error(), "(the other rank is silent)") {
		t.Errorf("%v", err)
	}
}

// TestNoLibrary: what is not there, is none, lacks a function or is too old is said by name.
func TestNoLibrary(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none.so")
	if _, err := open([]string{none}); !errors.Is(err, ErrNoLibrary) || !strings.Contains(err.Error(), "DISKGNN_NCCL may name it") || !strings.Contains(err.Error(), none) {
		t.Errorf("%v", err)
	}
	lacks := compile(t, "-DVERSION=23007", "-DLACKS")
	if _, err := open([]string{lacks}); !errors.Is(err, ErrNoLibrary) || !strings.Contains(err.Error(), lacks+": NCCL 2.30.7 lacks ncclCommInitRankScalable") {
		t.Errorf("%v", err)
	}
	a, err := open([]string{compile(t, "-DVERSION=21903", "-DLACKS")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := checked(a); !errors.Is(err, ErrNoLibrary) || !strings.Contains(err.Error(), "NCCL 2.19.3") {
		t.Errorf("%v", err)
	}
	if _, err := open([]string{"libc.so.6"}); !errors.Is(err, ErrNoLibrary) || !strings.Contains(err.Error(), "not NCCL") {
		t.Errorf("%v", err)
	}
	t.Setenv("DISKGNN_NCCL", "/x/libnccl.so")
	if p := paths(); len(p) != 1 || p[0] != "/x/libnccl.so" {
		t.Errorf("%v", p)
	}
}
