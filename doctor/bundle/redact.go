package bundle

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// mostElements is the most elements of an array: longer ones, such as lists of nodes, lose the rest.
const mostElements = 100

// keptTexts are the keys with texts of the program's own: names of methods, versions, times. Other texts
// may be names of classes, columns or people.
var keptTexts = strings.Fields(`activation aggregator begun blas bound_stage cache_policy codec cpu device dtype
	ended engine finished gcn_norm io kind label_kind lane layer_order level loss method metric model norm optimizer
	order page_cache policy program reduce sampler schedule self_loops simd stage state store system topology version`)

// hashes are the keys with fingerprints and checksums.
var hashes = strings.Fields("checksum dataset fingerprint pack program_sha256 samples")

var (
	plainKey  = regexp.MustCompile(`^[a-z][a-z0-9_]{0,40}$`)
	plainText = regexp.MustCompile(`^[\w .,:;+()%@-]{0,100}$`)
	plainName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,80}$`)
	hash      = regexp.MustCompile(`^(sha256:|crc32c:)?[0-9a-f]{8,64}$`)
	figures   = regexp.MustCompile(`^[0-9][0-9.,/x%]*[A-Za-z]{0,3}$`)
	flag      = regexp.MustCompile(`^(--?[a-z][a-z-]{0,30})(=.*)?$`)
	quoted    = regexp.MustCompile("\"[^\"]*\"|`[^`]*`")
	ofKernel  = regexp.MustCompile(`^/(proc|sys|dev)/[\w/.*-]*$`)
	path      = regexp.MustCompile(`[^\s:;,()]*/[^\s:;,()]*`)
)

// redact returns a decoded JSON value under a key, and its parent's key, without texts that may be data.
func redact(parent, key string, v any) any {
	switch v := v.(type) {
	case string:
		return redactText(parent, key, v)
	case []any:
		if key == "command" {
			return command(v)
		}
		kept := make([]any, 0, min(len(v), mostElements))
		for _, e := range v[:min(len(v), mostElements)] {
			kept = append(kept, redact(parent, key, e))
		}
		if more := len(v) - len(kept); more > 0 {
			kept = append(kept, fmt.Sprintf("[%d more]", more))
		}
		return kept
	case map[string]any:
		kept := make(map[string]any, len(v))
		for k, e := range v {
			if !plainKey.MatchString(k) {
				k, e = "[key]", nil
			}
			kept[k] = redact(key, k, e)
		}
		return kept
	}
	return v
}

func redactText(parent, key, s string) any {
	switch {
	case key == "error":
		return scrub(s)
	case key == "name" && slices.Contains([]string{"format", "files", "levels"}, parent) && plainName.MatchString(s),
		slices.Contains(hashes, key) && hash.MatchString(s),
		slices.Contains(keptTexts, key) && plainText.MatchString(s):
		return s
	}
	return fmt.Sprintf("[text of %d bytes]", len(s))
}

// command keeps the names of flags, the figures, and the first word of a command line: the program's name.
func command(args []any) []any {
	kept := make([]any, 0, len(args))
	for i, a := range args {
		s, _ := a.(string)
		m := flag.FindStringSubmatch(s)
		switch {
		case i == 0:
			s = fileName(filepath.Base(s))
		case i == 1 && plainKey.MatchString(s), figures.MatchString(s):
		case m != nil && m[2] == "":
		case m != nil:
			s = m[1] + "=…"
		default:
			s = "…"
		}
		kept = append(kept, s)
	}
	return kept
}

// scrub returns a message without quoted texts, the directories of paths, and the host's name. Paths of the
// kernel's files stay.
func scrub(s string) string {
	s = quoted.ReplaceAllString(s, "…")
	s = path.ReplaceAllStringFunc(s, func(p string) string {
		if p == runtime.GOOS+"/"+runtime.GOARCH || ofKernel.MatchString(p) {
			return p
		}
		return "…/" + fileName(filepath.Base(p))
	})
	if host, err := os.Hostname(); err == nil && len(host) > 2 {
		s = strings.ReplaceAll(s, host, "[host]")
	}
	return strings.ToValidUTF8(s, "?")
}

// fileName returns a file's name, unless it may be more than that.
func fileName(name string) string {
	if plainName.MatchString(name) {
		return name
	}
	return "[name]"
}

// trusted returns a fact of the program itself as decoded JSON, with its texts scrubbed.
func trusted(v any) any {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	d, err := decode(b)
	if err != nil {
		return err.Error()
	}
	return scrubAll(d)
}

func scrubAll(v any) any {
	switch v := v.(type) {
	case string:
		return scrub(v)
	case []any:
		for i := range v {
			v[i] = scrubAll(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = scrubAll(v[k])
		}
	}
	return v
}
