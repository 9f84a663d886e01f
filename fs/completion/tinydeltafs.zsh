#compdef tinydeltafs
# SPDX-License-Identifier: MIT
# Completion of tinydeltafs for zsh, from what its help says.

_tinydeltafs_options() {
    local line
    local -a found
    if compset -P '*version='; then
        for line in ${(f)"$(tinydelta complete read ${words[2]} --version ${(q)PREFIX} 2>/dev/null)"}; do
            found+=("${line%%$'\t'*}:${${line#*$'\t'}//:/\\:}")
        done
        _describe -V 'version' found
        return
    fi
    compset -P '*,'
    for line in ${(f)"$(${words[1]} -h 2>/dev/null)"}; do
        [[ $line =~ '^ *-o ([a-z_]+)(=[A-Z]*)?[^ ]*  +(.*)$' ]] &&
            found+=("$match[1]${match[2]:+=}:$match[3]")
    done
    _describe 'option' found -S ''
}

_arguments -s \
    '-f[stay in the foreground]' '-d[show every request]' '-s[answer one request at a time]' \
    '(- *)-h[show the help]' '(- *)-V[show the version]' \
    '*-o[mount options]:option:_tinydeltafs_options' \
    '1:table:_files -/' '2:mount point:_files -/'
