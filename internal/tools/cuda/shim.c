// The libcuda that the gpu variant is linked with: it has every function of the driver
// API, and finds the driver when cuInit, the first of them to be called, asks for it.
// So one binary runs with a driver and without.
//
// A function is a jump to its entry in a table. Until the driver is found, and for
// good where there is none, every entry leads to refuse, which returns the reason.
// cuInit succeeds all the same: gorgonia.org/cu calls it before main and ends the
// process when it fails. Whoever asks for the number of devices learns the truth.
//
// All symbols are hidden: a library that is opened later, cuBLAS say, has its own way
// to the driver.
#include <dlfcn.h>
#include <pthread.h>

#ifndef __x86_64__
#error "the jumps below are x86-64's"
#endif

// Results of the driver API.
enum { success = 0, noDevice = 100, notFound = 500 };

static const char *const names[] = {
#define F(name) #name,
#include "functions.inc"
#undef F
};
enum { count = sizeof names / sizeof *names };

static int reason = noDevice;
static int refuse(void) { return reason; }

__attribute__((visibility("hidden"))) void *cuShimEntries[count] = {[0 ... count - 1] = (void *)refuse};

// The jumps, in the order of the table; the assembler counts the bytes passed.
__asm__(".pushsection .text\n"
        ".set cuShimAt, 0\n"
#define F(name) \
        ".globl " #name "\n.hidden " #name "\n.type " #name ", @function\n" \
        #name ":\n\tendbr64\n\tjmp *cuShimEntries+cuShimAt(%rip)\n" \
        ".set cuShimAt, cuShimAt+8\n"
#include "functions.inc"
#undef F
        ".popsection\n");

static void find(void) {
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!driver)
		return;
	int (*init)(unsigned) = (int (*)(unsigned))dlsym(driver, "cuInit");
	reason = init ? init(0) : notFound;
	if (reason != success)
		return;
	reason = notFound; // of functions that an older driver lacks
	for (int i = 0; i < count; i++) {
		void *f = dlsym(driver, names[i]);
		if (f)
			cuShimEntries[i] = f;
	}
}

__attribute__((visibility("hidden"))) int cuInit(unsigned flags) {
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	(void)flags;
	pthread_once(&once, find);
	return success;
}
