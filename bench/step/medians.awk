# Reads lines of a program's name, what it measured in so many words (-v words=), and its
# JSON, and prints for each thing measured the medians of "median_ms" over the rounds, and
# the first program's over each of the others.
match($0, /"median_ms": *[0-9.]+/) {
	of = $2
	for (i = 3; i < 2 + words; i++) of = of " " $i
	if (!(of in seen)) { seen[of] = 1; order[++n] = of }
	if (!($1 in known)) { known[$1] = 1; program[++programs] = $1 }
	value = substr($0, RSTART, RLENGTH); sub(/.*: */, "", value)
	all[of, $1, ++count[of, $1]] = value + 0
}
function median(of, who,   k, i, j, t, v) {
	k = count[of, who]
	for (i = 1; i <= k; i++) v[i] = all[of, who, i]
	for (i = 1; i <= k; i++) for (j = i + 1; j <= k; j++) if (v[j] < v[i]) { t = v[i]; v[i] = v[j]; v[j] = t }
	return (v[int((k + 1) / 2)] + v[int(k / 2) + 1]) / 2
}
END {
	for (i = 1; i <= n; i++) {
		of = order[i]; us = median(of, program[1])
		line = sprintf("%s: %s %.3f ms", of, program[1], us)
		for (j = 2; j <= programs; j++) {
			it = median(of, program[j])
			line = line sprintf("; %s %.3f ms, ratio %.3f", program[j], it, it > 0 ? us / it : 0)
		}
		print line
	}
}
