// Package slurmtest has the tests of examples/slurm, on a cluster of Slurm's: `make test-slurm`.
//
// TestSlurm starts cluster.sh, which brings up slurmctld and two nodes in namespaces of their own,
// with this package's test binary as the only user of that cluster. It runs the tests named
// TestOnSlurm; their output is TestSlurm's. `make test-slurm` says where Slurm is; without,
// TestSlurm skips.
package slurmtest
