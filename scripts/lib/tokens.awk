# Cuts Rust text into tokens, one a line: FILE <tab> LINE <tab> TOKEN.
# Knows no grammar. Comments, strings, characters and numbers are left out, `::` is one token, a lifetime is one token.
#
# Run it with LC_ALL=C, so that every awk sees bytes. It keeps to what mawk, gawk and busybox have in common.

BEGIN { OFS = "\t" }

FNR == 1 {
    comment_depth = 0 # block comments nest
    quote = ""        # what ends the string we are in
    raw = 0           # a raw string has no escapes
}

{
    rest = $0
    while (rest != "") {
        if (comment_depth > 0) leave_comment()
        else if (quote != "") leave_string()
        else next_token()
    }
}

function drop(length_of_token) { rest = substr(rest, length_of_token + 1) }

function leave_comment() {
    if (!match(rest, /\/\*|\*\//)) { rest = ""; return }
    comment_depth += substr(rest, RSTART, 1) == "/" ? 1 : -1
    drop(RSTART + 1)
}

function leave_string(    at) {
    if (raw) {
        at = index(rest, quote)
        if (at == 0) { rest = ""; return }
        drop(at + length(quote) - 1)
    } else {
        if (!match(rest, /^([^"\\]|\\.)*"/)) { rest = ""; return }
        drop(RLENGTH)
    }
    quote = ""
}

function next_token() {
    if (match(rest, /^[ \t\r]+/)) { drop(RLENGTH); return }
    if (match(rest, /^\/\//)) { rest = ""; return }
    if (match(rest, /^\/\*/)) { comment_depth = 1; drop(2); return }
    if (match(rest, /^[bc]?r#*"/)) {
        raw = 1
        quote = substr(rest, 1, RLENGTH)
        sub(/^[bcr]+/, "", quote)
        quote = "\"" substr(quote, 1, length(quote) - 1) # r##" is ended by "##
        drop(RLENGTH)
        return
    }
    if (match(rest, /^[bc]?"/)) { raw = 0; quote = "\""; drop(RLENGTH); return }
    # A quote begins an escape, one letter, a lifetime or any other one character, in this order.
    if (match(rest, /^b?'\\.[^']*'/) || match(rest, /^b?'[A-Za-z0-9_]'/)) { drop(RLENGTH); return }
    if (match(rest, /^'[A-Za-z_][A-Za-z0-9_]*/)) { print_token(); return }
    if (match(rest, /^b?'[^']+'/)) { drop(RLENGTH); return }
    if (match(rest, /^[0-9][A-Za-z0-9_]*/)) { drop(RLENGTH); return }
    if (match(rest, /^(r#)?[A-Za-z_][A-Za-z0-9_]*/) || match(rest, /^::/) || match(rest, /^./)) print_token()
}

function print_token() {
    print FILENAME, FNR, substr(rest, 1, RLENGTH)
    drop(RLENGTH)
}
