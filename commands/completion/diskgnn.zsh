#compdef diskgnn
# Completes commands and flags of diskgnn; where a flag has a value, file names.
_diskgnn() {
	local current=${words[CURRENT]}
	local -a given=("${(@)words[1,CURRENT-1]}") found
	if [[ $current == -* ]]; then
		given+=("$current")
	elif [[ ${given[-1]} == -* ]]; then
		_files
		return
	fi
	found=("${(@f)$("${given[@]}" --generate-bash-completion 2>/dev/null)}")
	if [[ -n ${found[1]} ]]; then
		compadd -a found
	else
		_files
	fi
}
if [[ $funcstack[1] == _diskgnn ]]; then
	_diskgnn "$@"
else
	compdef _diskgnn diskgnn
fi
