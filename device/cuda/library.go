package cuda

import (
	"os"
	"path/filepath"
)

// LibraryPaths returns where one of NVIDIA's libraries may be, best first: where the user says, in
// an environment variable; by its names as the loader looks for them; and by the names of files in
// the folders of CUDA and of Python packages that ship it.
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
