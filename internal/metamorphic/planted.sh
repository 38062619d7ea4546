#!/usr/bin/env bash
# Plants each defect of testdata/planted in a copy of the source, and runs random programs there until one
# breaks a relation: planted.sh PROGRAMS SEED [NAME...]. A defect has the seed SEED plus its number. The
# programs of a defect are divided among as many processes as there are processors.
# The output has a line for each defect, with the program that found it and the broken relation; the logs
# stay in the directory that the first line names.
set -euo pipefail
programs=$1 seed=$2
shift 2
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
parts=$(nproc)
echo "logs: $work"

# find NAME runs the programs of one defect.
find_defect() {
	local name=$1 tree=$work/tree log=$work/$1 pids=() part
	rm -rf "$tree" && mkdir -p "$tree" "$log"
	git -C "$here/../.." archive HEAD | tar x -C "$tree"
	patch -s -p1 -d "$tree" <"$here/testdata/planted/$name.patch"
	(cd "$tree" && ${GO:-go} test -c -vet=off -o "$work/planted.test" ./commands)
	for ((part = 0; part < parts; part++)); do
		(cd "$tree/commands" && DISKGNN_PROGRAMS=$programs DISKGNN_SEED=$((seed + 10#${name%%-*})) DISKGNN_PART=$part/$parts \
			exec "$work/planted.test" -test.run '^TestMetamorphic$' -test.v) >"$log/$part" 2>&1 &
		pids+=($!)
	done
	local all=${#pids[@]}
	while [ "$all" -gt 0 ] && wait -n; do all=$((all - 1)); done
	if [ "$all" -gt 0 ]; then
		kill "${pids[@]}" 2>/dev/null || true
		wait || true
	fi
	report "$name" "$log"
}

# report NAME LOG prints the first program that broke a relation.
report() {
	local found
	found=$(grep -h -o 'program [0-9]* of seed [0-9]*: .*' "$2"/* | sort -n -k2 | head -n 1 || true)
	if [ -z "$found" ]; then
		found=$(grep -l 'left at once\|no end within\|^panic\|^fatal\|^SIG' "$2"/* | head -n 1 || true)
		[ -z "$found" ] || found="the process ended: $(head -c 300 "$found" | tr '\n' ' ')"
	fi
	echo "$1: ${found:-not found in $programs programs}"
}

names=("$@")
[ ${#names[@]} -gt 0 ] || mapfile -t names < <(cd "$here/testdata/planted" && ls *.patch | sed 's/\.patch$//')
for name in "${names[@]}"; do
	(find_defect "$name") # wait -n would see the processes of the defect before
done
