# Reads lines of a program's name, what it measured in so many words (-v words=), and its
# JSON, and prints for each thing measured and each program the median of "median_ms" over
# the rounds with the least and the most of them, the medians of "prepare_ms" and
# "with_copies_ms" where there are such, and the first program's median over the others'.
function take(key,   value) {
	if (!match($0, "\"" key "\": *[0-9.]+")) return
	value = substr($0, RSTART, RLENGTH); sub(/.*: */, "", value)
	all[of, $1, key, ++count[of, $1, key]] = value + 0
}
/"median_ms": *[0-9.]+/ {
	of = $2
	for (i = 3; i < 2 + words; i++) of = of " " $i
	if (!(of in seen)) { seen[of] = 1; order[++n] = of }
	if (!($1 in known)) { known[$1] = 1; program[++programs] = $1 }
	take("median_ms"); take("prepare_ms"); take("with_copies_ms")
}
# sorted leaves the values in v, ascending, and returns how many there are.
function sorted(of, who, key,   k, i, j, t) {
	k = count[of, who, key]
	for (i = 1; i <= k; i++) v[i] = all[of, who, key, i]
	for (i = 1; i <= k; i++) for (j = i + 1; j <= k; j++) if (v[j] < v[i]) { t = v[i]; v[i] = v[j]; v[j] = t }
	return k
}
function median(of, who, key,   k) {
	k = sorted(of, who, key)
	return k ? (v[int((k + 1) / 2)] + v[int(k / 2) + 1]) / 2 : 0
}
END {
	for (i = 1; i <= n; i++) {
		of = order[i]; us = median(of, program[1], "median_ms")
		for (j = 1; j <= programs; j++) {
			who = program[j]
			if (!(k = sorted(of, who, "median_ms"))) continue
			line = sprintf("%s: %s %.3f ms (%.3f–%.3f, %d rounds)", of, who, median(of, who, "median_ms"), v[1], v[k], k)
			if (count[of, who, "prepare_ms"]) line = line sprintf(", host preparation %.3f ms", median(of, who, "prepare_ms"))
			if (count[of, who, "with_copies_ms"]) line = line sprintf(", with copies %.3f ms", median(of, who, "with_copies_ms"))
			if (j > 1) line = line sprintf(", ratio %.3f", us / median(of, who, "median_ms"))
			print line
		}
	}
}
