"""Scripts that make a shell ask the program itself what could be typed next.

Each sends the words so far to `<program> __complete`, which answers with one candidate per line
(a tab separates its description) and a last line `:<number>` that says how to go on: 2 means no
space behind the word, 4 means that file names are no candidates.
"""

from __future__ import annotations

_BASH = """# bash completion for @PROGRAM@: source this file, or put it into bash_completion.d
__@NAME@_complete() {
    local line directive=0
    local -a found=()
    COMPREPLY=()
    while IFS= read -r line; do
        if [[ $line == :* ]]; then directive=${line#:}; else found+=("${line%%$'\\t'*}"); fi
    done < <("${COMP_WORDS[0]}" __completeNoDesc "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    local current=${COMP_WORDS[COMP_CWORD]} candidate
    for candidate in "${found[@]}"; do
        [[ $candidate == "$current"* ]] && COMPREPLY+=("$candidate")
    done
    (( directive & 2 )) && compopt -o nospace 2>/dev/null
    if (( ! (directive & 4) )) && (( ${#COMPREPLY[@]} == 0 )); then compopt -o default 2>/dev/null; fi
    # colons separate words in bash; what stands in front of the last one is typed already
    if [[ $current == *:* && $COMP_WORDBREAKS == *:* ]]; then
        local typed=${current%"${current##*:}"} index
        for index in "${!COMPREPLY[@]}"; do COMPREPLY[index]=${COMPREPLY[index]#"$typed"}; done
    fi
}
complete -F __@NAME@_complete @PROGRAM@
"""

_ZSH = """#compdef @PROGRAM@
# zsh completion for @PROGRAM@: source this file, or put it into your $fpath as _@PROGRAM@
_@NAME@() {
    local line directive=0
    local -a candidates options
    for line in "${(@f)$("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
        if [[ $line == :* ]]; then
            directive=${line#:}
        elif [[ -n $line ]]; then
            candidates+=("${${line%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}")
        fi
    done
    (( directive & 2 )) && options=(-S '')
    _describe -t values '@PROGRAM@' candidates "${options[@]}" && return
    (( directive & 4 )) || _files
}
compdef _@NAME@ @PROGRAM@
"""

_FISH = """# fish completion for @PROGRAM@: put it into ~/.config/fish/completions/@PROGRAM@.fish
function __@NAME@_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l program $words[1]
    set -e words[1]
    $program __complete $words "$current" 2>/dev/null | string match -v -r '^:'
end
complete -c @PROGRAM@ -f -a '(__@NAME@_complete)'
"""

_POWERSHELL = """# PowerShell completion for @PROGRAM@: dot-source this file in your profile
Register-ArgumentCompleter -Native -CommandName '@PROGRAM@' -ScriptBlock {
    param($current, $tree, $position)
    $words = @($tree.CommandElements | Select-Object -Skip 1 | ForEach-Object { "$_" })
    if ($current -eq '') { $words += '' }
    & '@PROGRAM@' __complete @words 2>$null | Where-Object { $_ -notmatch '^:' } | ForEach-Object {
        $name, $text = $_ -split "`t", 2
        [System.Management.Automation.CompletionResult]::new($name, $name, 'ParameterValue', ($text ?? $name))
    }
}
"""

_SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH, "powershell": _POWERSHELL}


def script(shell: str, program: str) -> str:
    name = program.replace("-", "_")
    return _SCRIPTS[shell].replace("@PROGRAM@", program).replace("@NAME@", name)
