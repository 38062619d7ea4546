package pack

import "diskgnn/pack/internal/rowfile"

// KeepOpen sets how many files are open for writing at a time.
func (o *Options) KeepOpen(n int) { o.openFiles = n }

// WriteDepth is the number of writes under way at a time.
const WriteDepth = rowfile.Depth
