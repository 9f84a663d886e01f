# SPDX-License-Identifier: MIT
# Completion of tinydeltafs for fish, from what its help says.

function __tinydeltafs_options
    set -l typed (commandline -ct)
    set -l before (string replace -r '[^,]*$' '' -- $typed)
    tinydeltafs -h 2>/dev/null | string replace -rf '^ *-o ([a-z_]+)(=)?\S* +(.*)$' "$before"'$1$2\t$3'
end

complete -c tinydeltafs -f -a '(__fish_complete_directories (commandline -ct))'
complete -c tinydeltafs -s f -d 'stay in the foreground'
complete -c tinydeltafs -s d -d 'show every request'
complete -c tinydeltafs -s s -d 'answer one request at a time'
complete -c tinydeltafs -s h -d 'show the help'
complete -c tinydeltafs -s V -d 'show the version'
complete -c tinydeltafs -s o -x -a '(__tinydeltafs_options)' -d 'mount options'
