package pack

import (
	"context"
	"encoding/json"

	"diskgnn/internal/stage"
	"diskgnn/pack/packfile"
)

// begin opens the transaction for the pack, or the shard.
func (p *packing) begin(ctx context.Context) (*stage.Dir, stage.State, error) {
	spec, err := p.spec()
	if err != nil {
		return nil, 0, err
	}
	spec.Words = words
	spec.Check = func(dir string, m *stage.Meta, look stage.Look) error {
		return packfile.Check(ctx, p.fs, dir, m, look)
	}
	return stage.Begin(p.fs, p.out, spec, p.o.Force)
}

// words says how a user gives a content parameter.
func words(param string, value json.RawMessage) (name, text string) {
	name, text = stage.Plain(param, value)
	switch param {
	case "cache_rows":
		return "--cache", text + " rows"
	case "max_disk":
		if len(value) == 0 || text == "0" {
			return name, "unlimited"
		}
		return name, text + " bytes"
	case "codec":
		return "--compress-chunks", text
	}
	return name, text
}
