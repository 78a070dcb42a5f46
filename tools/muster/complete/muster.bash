# Completion of muster for bash. The tool itself prints the candidates.

_muster() {
    local tool=${COMP_WORDS[0]/#\~/$HOME} current=${COMP_WORDS[COMP_CWORD]} words=() line prefix
    # bash splits words at = and :, the tool does not.
    read -ra words <<<"${COMP_LINE:0:COMP_POINT}"
    [[ ${COMP_LINE:0:COMP_POINT} == *[[:space:]] ]] && words+=("")
    [[ $current == [=:] ]] && current=
    prefix=${words[-1]%"$current"}
    COMPREPLY=()
    while IFS= read -r line; do
        case $line in
        :files) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
        :dirs) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- "$current") ;;
        :command) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -c -f -- "$current" | sort -u) ;;
        *)
            line=${line%%$'\t'*}
            COMPREPLY+=("${line#"$prefix"}")
            ;;
        esac
    done < <("$tool" __complete "${words[@]:1}" 2>/dev/null)
}
complete -F _muster muster
