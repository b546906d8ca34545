# Completions of pailfs(1) for bash(1): commands, options with their values, and mountpoints.

# Replies with those of the words $1 that begin with $2. Bash replaces only what follows the last = or : of the word.
_pailfs_reply() {
    local word last=${COMP_WORDS[COMP_CWORD]}
    case $last in = | : | ://) last= ;; esac
    while read -r word; do
        case $word in *= | *://) compopt -o nospace ;; esac
        case $word in "$2"*) COMPREPLY+=("${word#"${2%"$last"}"}") ;; esac
    done <<<"$1"
}

# A list of options as of -o: names, or after name= the values; what stands before the last comma stays.
_pailfs_options() {
    local list=$1 before=$2 item
    item=${list##*,}
    before+=${list%"$item"}
    case $item in
        *=*) _pailfs_reply "$(pailfs complete values "${item%%=*}" | sed "s|^|$before${item%%=*}=|")" "$before$item" ;;
        *) _pailfs_reply "$(pailfs complete options | sed "s|^|$before|")" "$before$item" ;;
    esac
    compopt -o nospace
}

_pailfs() {
    local line=${COMP_LINE:0:COMP_POINT} command=${COMP_WORDS[1]-} word=() current previous
    COMPREPLY=()
    read -r -a word <<<"$line"
    case $line in *[[:space:]]) word+=('') ;; esac
    current=${word[${#word[@]} - 1]}
    previous=${word[${#word[@]} - 2]-}
    if [ "${#word[@]}" -le 2 ]; then
        _pailfs_reply "$(pailfs complete commands)" "$current"
        return
    fi
    case $previous:$current in
        -o:*)
            _pailfs_options "$current" ''
            return
            ;;
        *:-o*)
            _pailfs_options "${current#-o}" -o
            return
            ;;
    esac
    case $command:$current in
        mount:--*=*)
            _pailfs_options "${current#--}" --
            return
            ;;
        mount:-*) _pailfs_reply "$(pailfs complete flags mount; pailfs complete options | sed 's|^|--|')" "$current" ;;
        *:-*) _pailfs_reply "$(pailfs complete flags "${word[@]:1:${#word[@]}-2}")" "$current" ;;
        help:*) _pailfs_reply "$(pailfs complete commands)" "$current" ;;
        unmount:* | umount:* | restart:*) _pailfs_reply "$(pailfs complete mountpoints)" "$current" ;;
        set:*=* | set:[!./]*) _pailfs_options "$current" '' ;;
        status:* | flush:* | refresh:* | set:*) _pailfs_reply "$(pailfs complete mountpoints)" "$current" ;;
        cache:* | recover:* | config:* | acl:* | tag:* | uploads:*)
            [ "${#word[@]}" -gt 3 ] || _pailfs_reply "$(pailfs complete commands "$command")" "$current"
            ;;
        mount:*) [ "${#word[@]}" -gt 3 ] || _pailfs_reply "$(pailfs complete schemes)" "$current" ;;
    esac
    [ "${#COMPREPLY[@]}" -gt 0 ] || compopt -o default
}

complete -F _pailfs pailfs
