package cuda

import (
	"os"
	"path/filepath"
)

// LibraryPaths returns paths at which to try one of NVIDIA's libraries, best first. If the environment
// variable is set, its value is the only path. Otherwise these are the names, for the search of the dynamic
// loader, and then the existing files of the given names (patterns) in the folders of CUDA and of Python
// packages that ship the library.
func LibraryPaths(variable string, names, files []string) []string {
	if p := os.Getenv(variable); p != "" {
		return []string{p}
	}
	paths := append([]string(nil), names...)
	for _, file := range files {
		for _, dir := range []string{"/usr/local/cuda*/lib64", "/usr/lib/python3*/site-packages/nvidia/*/lib", "/usr/local/lib/python3*/*-packages/nvidia/*/lib"} {
			found, _ := filepath.Glob(dir + "/" + file) // no pattern is malformed
			paths = append(paths, found...)
		}
	}
	return paths
}
