#compdef tinydelta
# SPDX-License-Identifier: MIT
# Completion of tinydelta for zsh. The program itself says what may stand where.

_tinydelta() {
    local line kind=
    local -a found
    for line in ${(f)"$(_call_program words ${words[1]} complete "${(@q)words[2,CURRENT]}" 2>/dev/null)"}; do
        case $line in
        :files) kind=files ;;
        :folders) kind=folders ;;
        *) found+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}") ;;
        esac
    done
    # As they come: the newest version first.
    (($#found)) && _describe -V 'tinydelta' found
    case $kind in
    files) _files ;;
    folders) _files -/ ;;
    esac
}

_tinydelta "$@"
