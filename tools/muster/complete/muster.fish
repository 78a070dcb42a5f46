# Completion of muster for fish. The tool itself prints the candidates.

function __muster_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l option (string match -r '^(?:--[^=]*=)?' -- "$current")
    set -l value (string replace -- "$option" '' "$current")
    set -l lines ($words[1] __complete $words[2..-1] "$current" 2>/dev/null)
    switch "$lines[1]"
        case :files
            __fish_complete_path $value | string replace -r -- '^' $option
        case :dirs
            __fish_complete_directories $value '' | string replace -r -- '^' $option
        case :command
            __fish_complete_path $current
            complete -C"$current"
        case '*'
            printf '%s\n' $lines
    end
end

complete -c muster -f -a '(__muster_complete)'
