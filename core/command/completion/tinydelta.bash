# SPDX-License-Identifier: MIT
# Completion of tinydelta for bash. The program itself says what may stand where.

_tinydelta() {
    local line=${COMP_LINE:0:COMP_POINT} words word before candidate folder=
    COMPREPLY=()

    # Not as bash cuts it, which is at "=", ":" and "@" too.
    read -ra words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    word=${words[-1]}
    before=${word%"${word##*["$COMP_WORDBREAKS"]}"}

    while IFS= read -r candidate; do
        candidate=${candidate%%$'\t'*}
        case $candidate in
        :files) folder=-f ;;
        :folders) folder=-d ;;
        *) COMPREPLY+=("${candidate#"$before"}") ;;
        esac
    done < <("${words[0]}" complete "${words[@]:1}" 2>/dev/null)

    if [[ $folder ]]; then
        compopt -o filenames 2>/dev/null
        while IFS= read -r candidate; do
            COMPREPLY+=("$candidate")
        done < <(compgen "$folder" -- "${word#"$before"}")
    elif ((${#COMPREPLY[@]} == 1)) && [[ ${COMPREPLY[0]} == *: ]]; then
        compopt -o nospace 2>/dev/null
    fi
}

complete -F _tinydelta tinydelta
