// Package slurmtest has the tests of examples/slurm on a Slurm cluster: `make test-slurm`.
//
// TestSlurm starts cluster.sh, which starts slurmctld and two nodes in namespaces of their own. This
// package's test binary is the only user of the cluster: it runs the tests named TestOnSlurm, and TestSlurm
// prints their output. `make test-slurm` sets the place of Slurm; without it TestSlurm is skipped.
package slurmtest
