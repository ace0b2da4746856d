# What the self-tests of the checkers share: plant something in a fresh copy of the sources and see what the checker says of it.
# Sourced; needs a function `check FOLDER` that prints violations.
# shellcheck shell=bash

passed=0
failed=0

# begin_planting: makes $clean for the caller to fill with the sources as they are.
begin_planting() {
    local folder
    folder=$(mktemp -d)
    # shellcheck disable=SC2064 # the folder of now
    trap "rm -rf -- '$folder'" EXIT
    clean=$folder/clean copy=$folder/copy before=$folder/before
    mkdir -- "$clean"
}

# remember: notes what the checker says of $clean without any plant; the plants are judged by what is new.
remember() { check "$clean" >"$before" || true; }

# plant WANT FILE TEXT: puts TEXT at the end of FILE. The checker must then say WANT of that file; where WANT is empty, nothing new.
plant() {
    fresh_copy "$2"
    printf '\n%s\n' "$3" >>"$copy/$2"
    judge "$1" "$2" "$3"
}

# replace WANT FILE FROM TO: puts TO for FROM in FILE. Then as `plant`.
replace() {
    local text
    fresh_copy "$2"
    text=$(<"$copy/$2")
    printf '%s\n' "${text//"$3"/"$4"}" >"$copy/$2"
    judge "$1" "$2" "$3 -> $4"
}

fresh_copy() {
    rm -rf -- "$copy"
    cp -r -- "$clean" "$copy"
    mkdir -p -- "$(dirname -- "$copy/$1")"
}

judge() {
    local want=$1 file=$2 text=$3 said
    said=$(check "$copy" | grep -vxFf "$before" || true)
    if [[ -z $want && -z $said ]] || [[ -n $want && $said == *"$file"*"$want"* ]]; then
        echo "ok: ${want:-nothing} <- $file: ${text//$'\n'/ }"
        passed=$((passed + 1))
    else
        printf 'FAILED: in %s\n%s\nshould give: %s\ngave:        %s\n' "$file" "$text" "${want:-nothing}" "${said:-nothing}"
        failed=$((failed + 1))
    fi
}

# end_planting NAME: says how it went, and fails where anything did.
end_planting() {
    echo "$1 --self-test: $passed plants judged rightly, $failed wrongly"
    [[ $failed == 0 ]]
}
