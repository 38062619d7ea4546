package faultio

import "diskgnn/iostack/internal/frontend"

// Below passes the results of all device reads into host memory, of every stack of the process, through alter,
// until restore is called: faults of the drive below the stacks, for tests of whole commands. alter gets the
// bytes p that were read, from an offset of a file on. It may change or delay them, and returns the number of
// them that the stack sees, from 1 to len(p), or an error of the read. It is called concurrently. No two may be
// in force at once.
func Below(alter func(file string, offset int64, p []byte) (n int, err error)) (restore func()) {
	return frontend.AlterReads(alter)
}
