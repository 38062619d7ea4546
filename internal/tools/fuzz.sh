#!/usr/bin/env bash
# fuzz.sh TIME PACKAGE… fuzzes every target of the packages for TIME each. One instrumented binary
# in bin/fuzz serves all targets of a package. New inputs are added to the corpora of go test -fuzz; a
# failing input is left in the package's testdata.
set -euo pipefail
cd "$(dirname "$0")/../.."
time=${1:?usage: fuzz.sh TIME PACKAGE…}
go=${GO:-go}

corpora=$("$go" env GOCACHE)/fuzz
binaries=$PWD/bin/fuzz
log=$binaries/log
mkdir -p "$binaries"

# By default, minimizing an input that covers new code may take a minute, longer than TIME.
minimize=10x

# ended_by_deadline reports whether the target failed by a race in Go's coordinator at the end of TIME
# (golang/go#75804, fixed in Go 1.27): the deadline is the only error, and no input failed.
ended_by_deadline() {
	grep -qx ' *context deadline exceeded' "$log" && ! grep -q 'Failing input' "$log" && ! grep -q '^ *panic:' "$log"
}

"$go" list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}} {{.Dir}}{{end}}' "${@:2}" >"$binaries/packages"
while read -r package dir; do
	targets=$(cat "$dir"/*_test.go | sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p')
	[ -n "$targets" ] || continue
	binary=$binaries/${package//\//-}.test
	"$go" test -c -vet=off -fuzz=. -o "$binary" "$package"
	for target in $targets; do
		echo "== $package $target"
		(cd "$dir" && "$binary" -test.run='^$' -test.fuzz="^$target\$" -test.fuzztime="$time" \
			-test.fuzzminimizetime="$minimize" -test.fuzzcachedir="$corpora/$package") 2>&1 | tee "$log" || ended_by_deadline
	done
	rm "$binary"
done <"$binaries/packages"
