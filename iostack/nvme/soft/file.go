package soft

import "diskgnn/internal/vfs"

// OpenFile serves a file of the operating system's; see Open.
func OpenFile(path string, o Options) (*Drive, error) { return Open(vfs.OS, path, o) }
