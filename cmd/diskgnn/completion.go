package main

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"diskgnn/internal/fault"
)

// completing is the flag by which a shell asks for the words that may follow.
const completing = "--generate-bash-completion"

//go:embed completion/diskgnn.bash
var bashCompletion string

//go:embed completion/diskgnn.zsh
var zshCompletion string

const completionTeaches = `Prints a script for a shell, with which it completes commands and flags.

   source <(diskgnn completion bash)                                     # this shell
   diskgnn completion bash > /etc/bash_completion.d/diskgnn              # all shells
   diskgnn completion zsh > "${fpath[1]}/_diskgnn"
   diskgnn completion fish > ~/.config/fish/completions/diskgnn.fish`

// completion is what the command prints with --json.
type completion struct {
	Shell  string `json:"shell"`
	Script string `json:"script"`
}

func newCompletionCommand(g *globals) *cli.Command {
	return g.add(command{
		name:     "completion",
		usage:    "print a script by which a shell completes commands and flags",
		teaches:  completionTeaches,
		operands: []string{"SHELL"},
		run: func(_ context.Context, s *session) (outcome, error) {
			c := completion{Shell: s.args[0]}
			switch c.Shell {
			case "bash":
				c.Script = bashCompletion
			case "zsh":
				c.Script = zshCompletion
			case "fish":
				var err error
				if c.Script, err = newApp(&globals{}).ToFishCompletion(); err != nil {
					return outcome{}, fmt.Errorf("write the script: %w", err)
				}
			default:
				return outcome{}, fault.New(fault.ErrUsage, "no script for %q; there are bash, zsh and fish", c.Shell)
			}
			return outcome{object: c, text: c.Script}, nil
		},
	})
}

// manual is what man prints with --json.
type manual struct {
	Page string `json:"page"`
}

const manTeaches = `Prints the manual page of the program with all its commands, section 1.

   diskgnn man | man -l -
   diskgnn man > /usr/local/share/man/man1/diskgnn.1`

func newManCommand(g *globals) *cli.Command {
	return g.add(command{
		name:    "man",
		usage:   "print the manual page",
		teaches: manTeaches,
		run: func(context.Context, *session) (outcome, error) {
			page, err := newApp(&globals{}).ToManWithSection(1)
			if err != nil {
				return outcome{}, fmt.Errorf("write the manual page: %w", err)
			}
			page = strings.TrimRight(page, "\n") + "\n"
			return outcome{object: manual{page}, text: page}, nil
		},
	})
}
