# Reads what tokens.awk writes and prints every path that a file under src/ names, resolved from the crate's root:
# FILE <tab> LINE <tab> test|code <tab> PATH <tab> NAME.
# Judges nothing: check-storeys does.
#
# PATH is crate::a::b where the text says crate::, self:: or super::, however nested; other paths stand as written. A `use` gives one
# line for each name it brings in, and NAME is that name. "test" is what stands under #[cfg(test)] or #[cfg(all(test, ..))].

BEGIN { FS = OFS = "\t" }

$1 != file { begin_file($1) }

{
    line = $2
    token = $3
    note_test_attribute()
    if (using) in_use()
    else if (token == "use") { using = 1; groups = 0; begin_branch("") }
    else outside_use()
    note_depth()
    before_previous = previous
    previous = token
}

function begin_file(name) {
    file = name
    file_module = name
    sub(/^.*\/src\//, "", file_module)
    sub(/\.rs$/, "", file_module)
    sub(/\/mod$/, "", file_module)
    if (file_module == "lib" || file_module == "main") file_module = ""
    gsub(/\//, "::", file_module)
    depth = 0          # of all brackets
    modules = 0        # `mod name { .. }` that we are in
    in_test = 0
    test_depth = 0     # of brackets around the item that is compiled for tests only
    using = 0
    path = previous = before_previous = attribute = ""
}

# --- where we are -----------------------------------------------------------------------------------------------------

function note_test_attribute() {
    if (token == "#") { attribute = ""; attribute_depth = depth }
    if (length(attribute) < 20) attribute = attribute token
    if (!in_test && attribute ~ /^#!?\[cfg\((all\()?test$/) {
        in_test = 1
        # An inner attribute, #![..], is about the brackets, or the file, that it stands in.
        test_depth = attribute ~ /!/ ? attribute_depth - 1 : attribute_depth
    }
}

function note_depth() {
    if (token == "{" && before_previous == "mod") {
        module_name[++modules] = previous
        module_depth[modules] = depth
    }
    if (token ~ /^[({[]$/) depth++
    if (token ~ /^[]})]$/) depth--
    if (token == "}" && modules > 0 && depth == module_depth[modules]) modules--
    # An item ends with its semicolon or its closing brace.
    if (depth < test_depth || (depth == test_depth && (token == ";" || token == "}"))) in_test = 0
}

function here(    i, module) {
    module = file_module
    for (i = 1; i <= modules; i++) module = module (module == "" ? "" : "::") module_name[i]
    return module
}

# --- use a::{b, c::d as e}; -------------------------------------------------------------------------------------------

function in_use() {
    if (token == "<" && previous == "use") using = 0 # `impl Trait + use<'a>` captures, it names no path
    else if (token == ";") { end_branch(); using = 0; path = "" }
    else if (token == ",") { end_branch(); begin_branch(groups > 0 ? group[groups] : "") }
    else if (token == "{") { group[++groups] = path; begin_branch(path) }
    else if (token == "}") { end_branch(); groups-- }
    else if (token == "as") renaming = 1
    else if (renaming) name = token
    else if (token != "::") {
        path = path (path == "" ? "" : "::") token
        name = token
        path_line = line
        branch_is_open = 1
    }
}

function begin_branch(prefix) {
    path = prefix
    branch_is_open = renaming = 0
}

function end_branch() {
    if (branch_is_open) emit()
    branch_is_open = 0
}

# --- a::b in an expression, a type, an attribute ----------------------------------------------------------------------

function outside_use() {
    if (path != "" && token == "::") return
    if (path != "" && previous == "::" && token ~ /^[A-Za-z_]/) { path = path "::" token; name = token; return }
    if (path ~ /::/) emit()
    path = ""
    if (token ~ /^[A-Za-z_]/ && previous != "::") { path = name = token; path_line = line }
}

# --- what comes out ---------------------------------------------------------------------------------------------------

function parent(module) { return module ~ /::/ ? substr(module, 1, match(module, /::[^:]*$/) - 1) : "" }

function emit(    segments, count, i, resolved) {
    sub(/::self$/, "", path) # a::{self}
    count = split(path, segments, "::")
    resolved = path
    if (segments[1] ~ /^(crate|self|super)$/) {
        resolved = ""
        if (segments[1] == "self") resolved = here()
        if (segments[1] == "super") resolved = parent(here())
        for (i = 2; i <= count && segments[i] == "super"; i++) resolved = parent(resolved)
        resolved = "crate" (resolved == "" ? "" : "::" resolved)
        for (; i <= count; i++) resolved = resolved "::" segments[i]
    }
    print file, path_line, in_test ? "test" : "code", resolved, name
}
