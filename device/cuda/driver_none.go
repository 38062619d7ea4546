//go:build !(gpu && cgo && linux && amd64)

package cuda

import "diskgnn/internal/fault"

// loadDriver returns an error: there is no driver in this build.
func loadDriver() (driver, error) {
	return nil, fault.New(ErrNoDevice, "this program was built without GPU support: make build-gpu builds bin/diskgnn-gpu, which has it")
}
