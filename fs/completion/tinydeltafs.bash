# SPDX-License-Identifier: MIT
# Completion of tinydeltafs for bash, from what its help says.

_tinydeltafs() {
    local line=${COMP_LINE:0:COMP_POINT} words word before name table="" i
    COMPREPLY=()

    read -ra words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    word=${words[-1]}
    for ((i = 1; i < ${#words[@]} - 1; i++)); do
        case ${words[i]} in
        -o) ((i++)) ;;
        -*) ;;
        *) table=${table:-${words[i]}} ;;
        esac
    done

    if ((${#words[@]} > 2)) && [[ ${words[-2]} == -o ]]; then
        # The last of a list of options, which bash cuts at "=".
        before=${word%"${word##*[,=]}"}
        case ${word##*,} in
        version=*)
            while IFS= read -r name; do
                COMPREPLY+=("${name%%$'\t'*}")
            done < <(tinydelta complete read "${table:-.}" --version "${word##*=}" 2>/dev/null)
            [[ $COMP_WORDBREAKS == *=* ]] && before=
            ;;
        *=*) ;;
        *)
            while IFS= read -r name; do
                [[ $name == "${word##*,}"* ]] && COMPREPLY+=("$name")
            done < <("${words[0]}" -h 2>/dev/null |
                sed -n 'h; s/^ *-o \([a-z_]*=\{0,1\}\).*/\1/p; g; s/^ *-o [a-z_]*=N,\([a-z]*=\).*/\1/p')
            compopt -o nospace 2>/dev/null
            ;;
        esac
        COMPREPLY=("${COMPREPLY[@]/#/$before}")
    elif [[ $word == -* ]]; then
        while IFS= read -r name; do
            [[ $name == "$word"* ]] && COMPREPLY+=("$name")
        done < <("${words[0]}" -h 2>/dev/null | sed -n 's/^ *\(-[a-zA-Z]\) .*/\1/p' | sort -u)
    else
        compopt -o filenames 2>/dev/null
        while IFS= read -r name; do
            COMPREPLY+=("$name")
        done < <(compgen -d -- "$word")
    fi
}

complete -F _tinydeltafs tinydeltafs
