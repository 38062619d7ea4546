# Completes commands and flags of diskgnn; where a flag has a value, file names.
_diskgnn() {
	local current=${COMP_WORDS[COMP_CWORD]} words=("${COMP_WORDS[@]:0:COMP_CWORD}")
	COMPREPLY=()
	if [[ $current == -* ]]; then
		words+=("$current")
	elif [[ ${words[-1]} == -* || ${words[-1]} == = ]]; then
		return
	fi
	mapfile -t COMPREPLY < <(compgen -W "$("${words[@]}" --generate-bash-completion 2>/dev/null)" -- "$current")
}
complete -o bashdefault -o default -F _diskgnn diskgnn
