# SPDX-License-Identifier: MIT
# Completion of tinydelta's commands, options, tables and version numbers for bash.

_tinydelta_versions() {
    local name
    for name in "$1"/_delta_log/[0-9]*.json; do
        name=${name##*/}
        [[ $name =~ ^0*([0-9]+)\.json$ && ${#name} == 25 ]] && echo "${BASH_REMATCH[1]}"
    done
}

_tinydelta() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
    local command=${COMP_WORDS[1]} options table table_at=0 i

    # "--version=3" comes as three words.
    if [[ $current == "=" ]]; then
        current=
    elif [[ $previous == "=" ]]; then
        previous=${COMP_WORDS[COMP_CWORD - 2]}
    fi

    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        mapfile -t COMPREPLY < <(compgen -W "create append overwrite read describe history changes \
            diff restore vacuum check recover --help --version" -- "$current")
        return
    fi

    case $command in
    create) options="--message --json" ;;
    append | overwrite) options="--file --read-version --message --json" ;;
    read) options="--version" ;;
    describe) options="--version --json --color" ;;
    history) options="--number --since --until --user --source --operation --reverse --long --graph --json --color" ;;
    diff) options="--stat --color" ;;
    restore) options="--version --read-version --message --json" ;;
    vacuum) options="--older-than --dry-run --json --color" ;;
    recover) options="--from --dry-run --json" ;;
    check) options="--version --repair --older-than --json --color" ;;
    *) options= ;;
    esac

    # The table is the first word that is neither an option nor the value of one.
    for ((i = 2; i < ${#COMP_WORDS[@]}; i++)); do
        case ${COMP_WORDS[i]} in
        --dry-run | --repair | --reverse | --long | --json | --stat | --help | -h) ;;
        --graph) [[ ${COMP_WORDS[i + 1]} == "=" ]] && ((i += 2)) ;;
        -*)
            [[ ${COMP_WORDS[i + 1]} == "=" ]] && ((i++))
            ((i++))
            ;;
        *)
            table=${COMP_WORDS[i]} table_at=$i
            break
            ;;
        esac
    done
    # The word is as typed; a home directory has not been put in yet.
    [[ $table == \~/* ]] && table=$HOME/${table#\~/}

    case $previous in
    --file)
        compopt -o filenames
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
        return
        ;;
    --version | --read-version)
        mapfile -t COMPREPLY < <(compgen -W "$(_tinydelta_versions "${table:-.}")" -- "$current")
        return
        ;;
    --color)
        mapfile -t COMPREPLY < <(compgen -W "auto always never" -- "$current")
        return
        ;;
    --graph)
        if [[ ${COMP_WORDS[COMP_CWORD]} == "=" || ${COMP_WORDS[COMP_CWORD - 1]} == "=" ]]; then
            mapfile -t COMPREPLY < <(compgen -W "rows bytes" -- "$current")
            return
        fi
        ;;
    --from)
        mapfile -t COMPREPLY < <(cd "${table:-.}/_incoming" 2>/dev/null && compgen -d -- "$current")
        return
        ;;
    --older-than | --number | -n | --message | -m | --since | --until | --user | --source | \
        --operation) return ;;
    esac

    if [[ $current == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$options --help" -- "$current")
    elif [[ $command == diff ]] && ((table_at > 0 && table_at < COMP_CWORD)); then
        mapfile -t COMPREPLY < <(compgen -W "$(_tinydelta_versions "$table")" -- "$current")
    else
        compopt -o filenames
        mapfile -t COMPREPLY < <(compgen -d -- "$current")
    fi
}

complete -F _tinydelta tinydelta
