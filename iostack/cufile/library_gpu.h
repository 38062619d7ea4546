// libcufile, opened when it is needed. What is used of it has been the same since its
// first release; its header is not wanted.
#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

// A status: the library's own, and CUDA's beside it.
typedef struct {
	int err, cuda;
} fileStatus;

// What a file is: an open descriptor (type 1) of a file system that the library knows.
typedef struct {
	int type;
	union {
		int fd;
		void *handle;
	} handle;
	const void *operations;
} fileDescriptor;

typedef struct {
	struct {
		unsigned major, minor;
		size_t pollThreshold, maxDirect;
		unsigned status, control;
	} nvfs;
	unsigned features, maxCache, perBufferCache, maxPinned, maxBatch, batchTimeout;
	unsigned reserved[32]; // of releases to come
} fileProperties;

typedef struct {
	fileStatus (*driverOpen)(void);
	fileStatus (*driverProperties)(fileProperties *);
	fileStatus (*handleRegister)(void **, fileDescriptor *);
	void (*handleDeregister)(void *);
	fileStatus (*bufRegister)(const void *, size_t, int);
	fileStatus (*bufDeregister)(const void *);
	ssize_t (*read)(void *, void *, size_t, off_t, off_t);
	fileStatus (*setBool)(int, bool); // not in all releases
} fileLibrary;

// Opens a library. It returns what is wrong with it, or NULL.
static inline const char *fileOpen(fileLibrary *l, const char *path) {
	void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!lib)
		return dlerror();
	struct {
		void **to;
		const char *name;
	} want[] = {
	    {(void **)&l->driverOpen, "cuFileDriverOpen"},
	    {(void **)&l->driverProperties, "cuFileDriverGetProperties"},
	    {(void **)&l->handleRegister, "cuFileHandleRegister"},
	    {(void **)&l->handleDeregister, "cuFileHandleDeregister"},
	    {(void **)&l->bufRegister, "cuFileBufRegister"},
	    {(void **)&l->bufDeregister, "cuFileBufDeregister"},
	    {(void **)&l->read, "cuFileRead"},
	};
	for (size_t i = 0; i < sizeof want / sizeof *want; i++)
		if (!(*want[i].to = dlsym(lib, want[i].name)))
			return dlerror();
	*(void **)&l->setBool = dlsym(lib, "cuFileSetParameterBool");
	return NULL;
}

static inline fileStatus fileForbidCompatibility(fileLibrary *l) {
	enum { ALLOW_COMPAT_MODE = 1 };
	return l->setBool(ALLOW_COMPAT_MODE, false);
}

static inline fileStatus fileDriverOpen(fileLibrary *l) { return l->driverOpen(); }

static inline fileStatus fileDriverProperties(fileLibrary *l, fileProperties *p) {
	memset(p, 0, sizeof *p);
	return l->driverProperties(p);
}

static inline fileStatus fileRegister(fileLibrary *l, int fd, uintptr_t *handle) {
	fileDescriptor d;
	memset(&d, 0, sizeof d);
	d.type = 1;
	d.handle.fd = fd;
	return l->handleRegister((void **)handle, &d);
}

static inline void fileDeregister(fileLibrary *l, uintptr_t handle) { l->handleDeregister((void *)handle); }

static inline fileStatus filePin(fileLibrary *l, uint64_t address, size_t bytes) {
	return l->bufRegister((const void *)(uintptr_t)address, bytes, 0);
}

static inline fileStatus fileUnpin(fileLibrary *l, uint64_t address) { return l->bufDeregister((const void *)(uintptr_t)address); }

static inline ssize_t fileRead(fileLibrary *l, uintptr_t handle, uint64_t base, size_t bytes, int64_t offset, int64_t at) {
	return l->read((void *)handle, (void *)(uintptr_t)base, bytes, offset, at);
}
