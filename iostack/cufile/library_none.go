//go:build !(gpu && cgo && linux && amd64)

package cufile

import (
	"diskgnn/device/cuda"
	"diskgnn/internal/fault"
)

// loadLibrary returns the reason why there is no library; tests replace it.
var loadLibrary = func() (library, error) {
	return nil, fault.New(cuda.ErrNoDevice, "this program was built without GPU support: make build-gpu builds bin/diskgnn-gpu, which has it")
}
