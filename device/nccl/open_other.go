//go:build !(linux && (amd64 || arm64))

package nccl

import "diskgnn/internal/fault"

func openOnce() (api, error) {
	return nil, fault.New(ErrNoLibrary, "NCCL is for Linux on amd64 and arm64")
}
