package main

import (
	"context"

	"github.com/urfave/cli/v2"

	"diskgnn/doctor"
)

const doctorTeaches = `Says what this machine can do, and why not, with the one thing to change: processor,
OpenBLAS, memory, locked memory, huge pages; io_uring, direct I/O and the drive of a
directory; GPU, drives that write to its memory, cuFile; NVMe drives for queues of one's
own. It ends with exit code 0 whatever it finds.

   diskgnn doctor
   diskgnn doctor --dir /mnt/nvme --json

How fast the drive is, 'diskgnn bench io' measures.`

// newDoctorCommand says what the machine can do.
func newDoctorCommand(g *globals) *cli.Command {
	directory := "."
	return g.add(command{
		name:    "doctor",
		usage:   "say what this machine can do, and what to change",
		teaches: doctorTeaches,
		flags: []cli.Flag{
			stringFlag("dir", "DIR", "where data will lie: direct I/O and the drive are those of this directory", &directory),
		},
		run: func(ctx context.Context, s *session) (outcome, error) {
			r := doctor.Here().Examine(ctx, directory)
			var lines []line
			for _, f := range r.Findings {
				lines = append(lines, line{f.Name, f.State + ": " + f.Found})
				if f.Change != "" {
					lines = append(lines, line{"", "to change it: " + f.Change})
				}
			}
			return outcome{object: r, lines: lines}, ctx.Err()
		},
	})
}
