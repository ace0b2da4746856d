# What the self-tests of the checkers share: plant something in a fresh copy of the sources and see what the checker says of it.
# Sourced; needs a function `check FOLDER` that prints violations.
# shellcheck shell=bash

# Plants so far, and how many of them are being judged: as many at a time as there are CPUs.
plants=0
running=0

# begin_planting: makes $clean for the caller to fill with the sources as they are.
begin_planting() {
    folder=$(mktemp -d)
    # shellcheck disable=SC2064 # the folder of now
    trap "rm -rf -- '$folder'" EXIT
    clean=$folder/clean before=$folder/before judged=$folder/judged
    mkdir -- "$clean"
    : >"$judged"
}

# remember: notes what the checker says of $clean without any plant; the plants are judged by what is new.
remember() { check "$clean" >"$before" || true; }

# plant WANT FILE TEXT: puts TEXT at the end of FILE. The checker must then say WANT of that file; where WANT is empty, nothing new.
plant() { in_turn planted "$@"; }

planted() {
    fresh_copy "$2"
    printf '\n%s\n' "$3" >>"$copy/$2"
    judge "$1" "$2" "$3"
}

# replace WANT FILE FROM TO: puts TO for FROM in FILE. Then as `plant`.
replace() { in_turn replaced "$@"; }

replaced() {
    local text
    fresh_copy "$2"
    text=$(<"$copy/$2")
    printf '%s\n' "${text//"$3"/"$4"}" >"$copy/$2"
    judge "$1" "$2" "$3 -> $4"
}

# in_turn COMMAND...: runs it in the background, in a copy of its own, as soon as there is a CPU for it.
in_turn() {
    if ((running == $(nproc))); then
        wait -n || true
        running=$((running - 1))
    fi
    plants=$((plants + 1)) running=$((running + 1))
    apart "$plants" "$@" &
}

# apart NUMBER COMMAND...: in a copy of that number.
apart() {
    trap - EXIT
    copy=$folder/copy.$1
    "${@:2}"
    rm -rf -- "$copy"
}

fresh_copy() {
    cp -r -- "$clean" "$copy"
    mkdir -p -- "$(dirname -- "$copy/$1")"
}

judge() {
    local want=$1 file=$2 text=$3 said
    said=$(check "$copy" | grep -vxFf "$before" || true)
    if [[ -z $want && -z $said ]] || [[ -n $want && $said == *"$file"*"$want"* ]]; then
        echo "ok: ${want:-nothing} <- $file: ${text//$'\n'/ }"
        echo right >>"$judged"
    else
        printf 'FAILED: in %s\n%s\nshould give: %s\ngave:        %s\n' "$file" "$text" "${want:-nothing}" "${said:-nothing}"
    fi
}

# end_planting NAME: says how it went, and fails where anything did.
end_planting() {
    local right
    wait
    right=$(wc -l <"$judged")
    echo "$1 --self-test: $right plants judged rightly, $((plants - right)) wrongly"
    [[ $right == "$plants" ]]
}
