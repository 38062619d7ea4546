package commands

import (
	"strings"
	"testing"
)

// TestLimitsOfTheProcess: what a process may not have is exit code 4, and is said once.
func TestLimitsOfTheProcess(t *testing.T) {
	t.Chdir(t.TempDir())
	diskgnn(t, "generate --out g --nodes 600 --dim 8 --classes 4 --train-ratio 0.5")
	diskgnn(t, "presample --dataset g --out s --batch-size 16 --fanout 3,3")
	diskgnn(t, "pack --dataset g --samples s --out p")
	diskgnn(t, "train --pack p --out r --hidden 8 --epochs 1")
	const files, large = "too many open files", "file too large"
	for _, c := range []struct{ limit, command, says, remedy string }{
		{"-n 9", "presample --dataset g --out s2 --batch-size 16 --fanout 3,3", files, "ulimit -n"},
		{"-n 9", "presample --dataset g --out s --batch-size 16 --fanout 3,3 --force --seed 1", files, "ulimit -n"},
		{"-n 9", "pack --dataset g --samples s --out p2", files, "ulimit -n"},
		{"-n 9", "train --pack p --out r2 --epochs 1", files, "ulimit -n"},
		{"-n 9", "eval --run r --dataset g --exact", files, "ulimit -n"},
		{"-f 1", "presample --dataset g --out s2 --batch-size 16 --fanout 3,3", large, "ulimit -f"},
		{"-f 1", "train --pack p --out r2 --epochs 1 --hidden 256", large, "ulimit -f"},
		{"-f 1", "export --dataset g --format npy --out e", large, "ulimit -f"},
	} {
		p := begin(t, "", "sh", "-c", "ulimit "+c.limit+"; exec diskgnn version")
		if p.end() != exitDone {
			t.Skipf("ulimit %s: %s", c.limit, &p.stderr)
		}
		p = begin(t, "", "sh", "-c", "ulimit "+c.limit+"; exec diskgnn "+c.command+" --quiet")
		code, text := p.end(), strings.TrimSuffix(p.stderr.String(), "\n")
		first, _, _ := strings.Cut(text, " (and then: ")
		if code != exitSpace || strings.Contains(text, "\n") || strings.Count(first, c.says) != 1 || !strings.Contains(text, c.remedy) {
			t.Errorf("ulimit %s, %s: exit code %d, %s", c.limit, c.command, code, text)
		}
		// A file of one name is named once.
		words := strings.Fields(strings.ReplaceAll(first, ":", " "))
		for i, w := range words {
			for _, v := range words[:i] {
				if w == v && strings.Contains(w, "/") {
					t.Errorf("ulimit %s, %s: %s is named twice: %s", c.limit, c.command, w, text)
				}
			}
		}
	}
}
