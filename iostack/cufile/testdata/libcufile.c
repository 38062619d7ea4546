// A libcufile for tests, on machines without a GPU: device memory is host memory. The
// variable FAKE_CUFILE tells what it does wrong, as "verb:place" or "verb:place:number":
//
//	fail    answer with the status of that number
//	strict  the same while compatibility mode is forbidden
//	nth     fail the read of that number, from 0, with status 5044 (place read)
//	errno   let reads fail with that errno
//	short   read so many bytes at most
//	flip    flip a bit of what is read
//	abort   end the process
//	hang    never return
//
// at the place open, register, pin, read or properties.
#define _GNU_SOURCE
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
	int err, cu_err;
} CUfileError_t;

typedef struct {
	int type;
	union {
		int fd;
		void *handle;
	} handle;
	const void *fs_ops;
} CUfileDescr_t;

struct properties {
	unsigned major_version, minor_version;
	size_t poll_thresh_size, max_direct_io_size;
	unsigned dstatusflags, dcontrolflags, rest[6];
};

static bool forbidden;

static bool asked(const char *verb, const char *place, int *number) {
	char v[16] = "", p[16] = "";
	const char *text = getenv("FAKE_CUFILE");
	*number = 0;
	return text && sscanf(text, "%15[a-z]:%15[a-z]:%d", v, p, number) >= 2 && !strcmp(v, verb) && !strcmp(p, place);
}

static CUfileError_t at(const char *place) {
	int n;
	if (asked("abort", place, &n))
		abort();
	while (asked("hang", place, &n))
		pause();
	if (asked("fail", place, &n) || (forbidden && asked("strict", place, &n)))
		return (CUfileError_t){n, n == 5011 ? 999 : 0};
	return (CUfileError_t){0, 0};
}

CUfileError_t cuFileSetParameterBool(int parameter, bool value) {
	forbidden = parameter == 1 && !value;
	return (CUfileError_t){0, 0};
}

CUfileError_t cuFileDriverOpen(void) { return at("open"); }

CUfileError_t cuFileDriverGetProperties(struct properties *p) {
	p->major_version = 2;
	p->minor_version = 26;
	return at("properties");
}

CUfileError_t cuFileHandleRegister(void **handle, CUfileDescr_t *d) {
	*handle = (void *)(long)(d->handle.fd + 1000);
	return d->type == 1 ? at("register") : (CUfileError_t){5022, 0};
}

void cuFileHandleDeregister(void *handle) { (void)handle; }

CUfileError_t cuFileBufRegister(const void *base, size_t bytes, int flags) {
	(void)base, (void)bytes, (void)flags;
	return at("pin");
}

CUfileError_t cuFileBufDeregister(const void *base) {
	(void)base;
	return (CUfileError_t){0, 0};
}

ssize_t cuFileRead(void *handle, void *base, size_t size, off_t offset, off_t devOffset) {
	static int reads;
	int n, status = at("read").err, count = __atomic_fetch_add(&reads, 1, __ATOMIC_RELAXED);
	if (status)
		return -status;
	if (asked("nth", "read", &n) && n == count)
		return -5044;
	if (asked("errno", "read", &n)) {
		errno = n;
		return -1;
	}
	if (asked("short", "read", &n) && (size_t)n < size)
		size = n;
	// Direct reads are of whole pages at aligned addresses.
	size_t lead = offset % 4096, whole = (lead + size + 4095) / 4096 * 4096;
	char *pages = aligned_alloc(4096, whole);
	ssize_t got = pread((int)(long)handle - 1000, pages, whole, offset - (off_t)lead);
	if (got > 0) {
		got = got <= (ssize_t)lead ? 0 : got - (ssize_t)lead < (ssize_t)size ? got - (ssize_t)lead : (ssize_t)size;
		memcpy((char *)base + devOffset, pages + lead, got);
		if (got > 0 && asked("flip", "read", &n))
			((char *)base)[devOffset] ^= 1;
	}
	free(pages);
	return got;
}
