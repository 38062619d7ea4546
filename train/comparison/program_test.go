package comparison

import (
	"context"
	"errors"
	"strings"
	"testing"

	"diskgnn/internal/fault"
)

// TestExecute: a process's last line is its result, or why it failed.
func TestExecute(t *testing.T) {
	const sh = "/bin/sh"
	for script, want := range map[string]struct {
		out  string
		kind error
		text string
	}{
		`echo noise; echo '{"a":1}'`: {out: `{"a":1}`},
		`echo noise`:                 {text: "the last line of its output is not JSON"},
		`echo '{"error":"too little","exit_code":4}'; exit 4`:          {kind: fault.ErrBudget, text: "too little"},
		`echo '{"error":"a bug","exit_code":1}'; exit 1`:               {text: "a bug"},
		`echo broken >&2; exit 3`:                                      {text: "exit status 3: broken"},
		`test "$0 $1" = "--json --quiet" && echo '{"error":"","b":2}'`: {out: `{"error":"","b":2}`},
	} {
		out, err := execute(t.Context(), sh, "diskgnn", []string{"-c", script})
		if string(out) != want.out || (err == nil) != (want.text == "") {
			t.Errorf("%s: %q, %v", script, out, err)
		}
		if err != nil && (!strings.Contains(err.Error(), want.text) || want.kind != nil && !errors.Is(err, want.kind)) {
			t.Errorf("%s: %v", script, err)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(fault.ErrInterrupted)
	if _, err := execute(ctx, sh, "diskgnn", []string{"-c", "exit 1"}); !errors.Is(err, fault.ErrInterrupted) {
		t.Errorf("ended: %v", err)
	}
}
