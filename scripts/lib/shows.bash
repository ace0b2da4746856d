# What an emulated board can be asked to show. Each has two functions: guest_NAME prints what the guest does, in the words of boards/init, and
# judge_NAME looks at what came of it. Sourced by scripts/test-boards, with the board's file read and `answers`, the folder of its answers.
# What the board's file says comes from scripts/test-boards, and $ in a filter is jq's.
# shellcheck disable=SC2016,SC2154

# A kernel finds out by itself how fast the TSC is, and what it goes by then is off by as much as its looks were disturbed. And an uncertainty that
# is larger than this is no answer: where two readings are as far apart as that, nothing was measured.
RATE_TOLERANCE=0.03

# wrong TEXT: one line for each thing that is not as it must be.
wrong() { echo "$1" >>"$answers/wrong"; }

# shown TEXT: words for the table, if there are any.
shown() { if [[ -n $1 ]]; then echo "$1" >>"$answers/shown"; fi; }

# ended STEP: it ran, and ended with exit code 0, without a panic.
ended() {
    local status
    if [[ ! -e $answers/$1.status ]]; then
        wrong "$1: the board did not get to its end"
        return 1
    fi
    status=$(<"$answers/$1.status")
    if ((status > 128 && status < 192)); then
        wrong "$1: ended by signal $((status - 128))"
    elif ((status != 0)); then
        wrong "$1: exit code $status, not 0: $(tail -n 1 -- "$answers/$1.err")"
    fi
    if grep -q 'panicked at' -- "$answers/$1.out" "$answers/$1.err"; then wrong "$1: it panicked"; fi
    ((status == 0))
}

# holds STEP WHAT FILTER: the JSON that the step printed is so, by jq; the board's file is in its variables.
holds() {
    # That it did not get there, ended has said.
    [[ -e $answers/$1.out ]] || return 0
    jq --exit-status --arg system_timer "$system_timer" --arg arm_counter "$arm_counter" --arg clock_source "$clock_source" \
        --arg tsc "$tsc" --arg architecture "$architecture" --argjson tolerance "$RATE_TOLERANCE" "
        def source(\$id): .sources[] | select(.id == \$id);
        def near(\$wanted): (. / \$wanted - 1) | fabs <= \$tolerance;
        def measured: .calibrated and .slowest_hz <= .frequency_hz and .frequency_hz <= .fastest_hz and .bound_ppm / 1e6 <= \$tolerance;
        def runs_at(\$hz): measured and .slowest_hz <= \$hz and \$hz <= .fastest_hz;
        $3" "$answers/$1.out" >/dev/null 2>"$answers/jq.err" || wrong "$1: not so: $2 $(head -n 1 -- "$answers/jq.err")"
}

# processors_counter: the processor's own, if the board has one.
processors_counter() {
    if [[ $arm_counter != none ]]; then
        echo arm-counter
    elif [[ $tsc != none ]]; then
        echo tsc
    fi
}

# counters: the sources whose rate is known, with commas, or else a clock that every kernel has.
counters() {
    local sources
    sources=$(processors_counter)
    if [[ $system_timer != none ]]; then sources=bcm-systimer,bcm-systimer-low${sources:+,$sources}; fi
    echo "${sources:-monotonic}"
}

# counters_for_all: of those, the one that a plain user may read as well.
counters_for_all() {
    local source
    source=$(processors_counter)
    echo "${source:-monotonic}"
}

# --- machine: it is the board it is meant to be, and the kernel is well at the end. Asked of every board. ---------------

guest_machine() {
    if [[ -n $compatible ]]; then printf '%s\n' "step compatible tr '\\0' '\\n' </proc/device-tree/compatible"; fi
    # Just after boot the kernel still measures the TSC, and calls it tsc-early.
    echo "await 1 sh -c '! grep -q early $CLOCK_SOURCE_FILE'"
    echo "step clock_source cat $CLOCK_SOURCE_FILE"
}

judge_machine() {
    if [[ -n $compatible ]] && ended compatible && ! grep -qFx -- "$compatible" "$answers/compatible.out"; then
        wrong "the device tree is that of $(paste -s -d ' ' "$answers/compatible.out"), not of $compatible"
    fi
    if ended clock_source && ! grep -qFx -- "$clock_source" "$answers/clock_source.out"; then
        wrong "the kernel's clock source is $(<"$answers/clock_source.out"), not $clock_source"
    fi
    if ended kernel && grep -E 'undefined instruction|Internal error|Oops|BUG:|Unable to handle kernel' -- "$answers/kernel.out" >"$answers/oops"; then
        wrong "the kernel says: $(head -n 1 -- "$answers/oops")"
    fi
}

# --- probe: every source is told of, as root and as a plain user --------------------------------------------------------

guest_probe() {
    local build
    for build in "${builds[@]}"; do
        echo "step $build.probe hpt-$build probe --format json"
        echo "step $build.probe-plain as plain hpt-$build probe --format json"
        echo "step $build.probe-human hpt-$build probe"
        # One line of words each: the job is read by a shell.
        echo "step $build.capture sh -c 'hpt-$build capture $build.capture >&2 && gzip <$build.capture | base64'"
    done
}

judge_probe() {
    local build step
    for build in "${builds[@]}"; do
        ended "$build.probe-human" || true
        for step in "$build.probe" "$build.probe-plain"; do
            ended "$step" || continue
            holds "$step" 'a probe of a live machine' '.kind == "probe" and .machine.live'
            holds "$step" 'a machine that is told to be emulated' '.machine.emulated_by == "QEMU"'
            holds "$step" "clock source $clock_source" '.machine.clock_source == $clock_source'
            holds "$step" 'a source is chosen' '.choice.source != null'
            holds "$step" 'a source that cannot be used has a reason' 'all(.sources[]; .available or (.reason_kind != null and .reason != null))'
            if [[ $arm_counter == none ]]; then
                holds "$step" 'no arm-counter' 'source("arm-counter").available | not'
            else
                holds "$step" "arm-counter at $arm_counter Hz" 'source("arm-counter") | .available and .frequency_hz == ($arm_counter | tonumber)'
                # The judging of a reading takes longer than the reading itself, and is no part of a step. Only where time goes by instructions does
                # no other work on the host lengthen the one or the other.
                if [[ ${qemu[*]} == *-icount* ]]; then
                    holds "$step" 'the smallest step of arm-counter is no longer than a read and a tick' \
                        'source("arm-counter") | .granularity_ns <= .read_cost_ns + .resolution_ns'
                fi
            fi
        done
        judge_tsc "$build"
        # What hpt reads there, as a file beside the answers: see boards/README.md.
        if ended "$build.capture" && base64 -d <"$answers/$build.capture.out" | gzip -d >"$answers/$build.capture"; then
            if ! grep -qxF facts -- "$answers/$build.capture"; then wrong "$build.capture: there are no facts"; fi
            if [[ $(tail -n 1 -- "$answers/$build.capture") != end ]]; then wrong "$build.capture: it was cut off"; fi
        else
            wrong "$build.capture: no capture"
        fi
        if [[ $system_timer == none ]]; then
            for step in "$build.probe" "$build.probe-plain"; do
                holds "$step" 'no System Timer, because there is no such node, or no device tree on x86' \
                    'source("bcm-systimer", "bcm-systimer-low") | (.reason_kind == "no-device" and (.reason | contains("device tree has no")))
                        or (.reason_kind == "other-architecture" and $architecture == "amd64")'
            done
            shown 'no System Timer'
        else
            holds "$build.probe" "bcm-systimer at $system_timer" \
                'source("bcm-systimer") | .available and .width_bits == 64 and any(.evidence[]; endswith("registers at " + $system_timer))'
            holds "$build.probe" "bcm-systimer-low at $system_timer" \
                'source("bcm-systimer-low") | .available and .width_bits == 32 and any(.evidence[]; endswith("registers at " + $system_timer))'
            holds "$build.probe-plain" 'the System Timer is refused to a plain user, with what helps' \
                'source("bcm-systimer", "bcm-systimer-low") | (.available | not) and .reason_kind == "no-right" and .remedy != null'
            shown "System Timer at $system_timer"
        fi
    done
}

# judge_tsc BUILD: the TSC as the board's file says, for both users.
judge_tsc() {
    local step
    for step in "$1.probe" "$1.probe-plain"; do
        if [[ $tsc == none ]]; then
            holds "$step" 'no TSC' 'source("tsc").available | not'
        else
            holds "$step" "a TSC that the kernel calls $tsc, and it is chosen" \
                '(source("tsc") | .available and .kernel_verdict == $tsc) and .choice.source == "tsc" and .instant.source == "tsc"'
        fi
    done
}

# --- rates: the counters tick as fast as they must ----------------------------------------------------------------------

guest_rates() {
    local build sources
    sources=$(counters)
    for build in "${builds[@]}"; do
        echo "step $build.rates hpt-$build calibrate --window 300ms --format json --source $sources"
        echo "step $build.rates-plain as plain hpt-$build calibrate --window 100ms --format json --source $(counters_for_all)"
    done
}

judge_rates() {
    local build mhz
    for build in "${builds[@]}"; do
        ended "$build.rates" || continue
        if ended "$build.rates-plain"; then
            holds "$build.rates-plain" 'a plain user calibrates as well' '(.calibrations | length > 0) and all(.calibrations[]; .calibrated)'
        fi
        holds "$build.rates" 'all were calibrated, and each rate lies between its limits' '(.calibrations | length > 0) and all(.calibrations[]; measured)'
        if [[ $system_timer != none ]]; then
            holds "$build.rates" 'the System Timer runs at 1 MHz' \
                '[.calibrations[] | select(.source | startswith("bcm-systimer")) | runs_at(1e6)] | length == 2 and all'
        fi
        if [[ $arm_counter != none ]]; then
            holds "$build.rates" "arm-counter runs at $arm_counter Hz" \
                '[.calibrations[] | select(.source == "arm-counter") | runs_at($arm_counter | tonumber)] | length == 1 and all'
        fi
        if [[ $tsc != none ]]; then
            # The reference counts by it, at the rate that the kernel's log has, in kHz; the kernel's multiplier is rounded. BogoMIPS comes from the first
            # calibration, which a busy host may spoil.
            mhz=$(sed -nE 's/.*tsc: (Refined TSC clocksource calibration: |Detected )([0-9.]+) MHz.*/\2/p' "$answers/kernel.out" | tail -n 1)
            holds "$build.rates" "the TSC runs as fast as the kernel's log says, ${mhz:-unknown} MHz" \
                "[.calibrations[] | select(.source == \"tsc\") | measured and (.frequency_hz / (${mhz:-0} * 1e6) - 1 | fabs) * 1e6 <= .bound_ppm + 1e9 / .frequency_hz + 1] | length == 1 and all"
        fi
        shown "$(jq -r '.calibrations[] | select(.source | . == "bcm-systimer" or . == "arm-counter" or . == "tsc") |
            "\(.source) \(.frequency_hz / 1e4 | round / 100) MHz"' "$answers/$build.rates.out" | paste -s -d , | sed 's/,/, /g')"
    done
}

# --- bench: every source that is there can be read over and over --------------------------------------------------------

guest_bench() {
    local build
    cat <<GUEST
cat >/tmp/stop-stalls <<'STOP'
#!/bin/sh
# stop-stalls BUILD: a watch of every processor that is stopped in the middle; when it was, by /proc/uptime, on standard error.
# most: the CPU time of the thread that had most of it, in hundredths of a second.
most() { cat /proc/\$pid/task/*/stat | sed 's/.*) //' | awk '\$12 + \$13 > most { most = \$12 + \$13 } END { print most + 0 }'; }
hpt-\$1 latency stall --cpu all --duration 1h --above 300us --format json &
pid=\$!
await \$pid listens \$pid 2 15
# A thread opens the counters right before it watches, and has nothing else to do from then on.
await \$pid opened \$pid $cores /proc/interrupts
await \$pid worked \$pid $cores \$((\$(most) + 50))
kill -STOP \$pid
await \$pid stopped \$pid
read -r from _ </proc/uptime
sleep 3
read -r to _ </proc/uptime
echo "stopped \$from \$to" >&2
worked=\$(most)
kill -CONT \$pid
await \$pid worked \$pid $cores \$((worked + 10))
kill -TERM \$pid
wait \$pid
STOP
chmod 755 /tmp/stop-stalls
GUEST
    for build in "${builds[@]}"; do
        echo "step $build.bench hpt-$build bench --calls 2000 --format json"
        echo "step $build.bench-plain as plain hpt-$build bench --calls 500 --format json --source $(counters_for_all),realtime"
        echo "step $build.wakes hpt-$build latency timer --count 20 --interval 5ms --cpu all --fifo 2 --lock-memory --awake --best-effort --format json"
        # The longest step by far. What another build of the same program adds is shown by the other steps.
        if [[ $build == "${builds[0]}" ]]; then
            echo "step $build.experiments sh -c 'hpt-$build experiment all --short --store /tmp/kept --format json || test \$? = 1'"
        fi
        echo "step $build.poll hpt-$build latency poll --count 5 --interval 5ms --format json"
        echo "step $build.stalls /tmp/stop-stalls $build"
        echo "step $build.stalls-plain as plain hpt-$build latency stall --duration 1s --fifo 2 --accept-throttling --best-effort --format json"
        echo "step $build.wakes-plain as plain hpt-$build latency poll --count 20 --interval 5ms --fifo 2 --accept-throttling --best-effort --format json"
    done
}

judge_bench() {
    local build wanted from to
    for build in "${builds[@]}"; do
        ended "$build.bench" || continue
        wanted=$(counters)
        holds "$build.bench" 'every source was read to the end' '(.results | length >= 10) and all(.results[]; .complete)'
        holds "$build.bench" "read were $wanted, beside clock_gettime" "(\"$wanted,monotonic\" / \",\") - [.results[].id] == []"
        if ended "$build.bench-plain"; then
            holds "$build.bench-plain" 'a plain user measures as well' '(.results | length == 2) and all(.results[]; .complete)'
        fi
        if ended "$build.wakes"; then
            holds "$build.wakes" 'a real-time thread was woken on every processor' \
                ".thread.policy == \"fifo\" and ([.thread.refused[].setting] - [\"wake-latency\"] == []) and ([.results[].samples] | length >= $cores and all(. == 20))"
        fi
        if ended "$build.poll"; then
            holds "$build.poll" 'where Instant asks the kernel, a System Timer is named' \
                "any(.notes[]; contains(\"--source bcm-systimer\")) == $([[ $system_timer != none && $arm_counter == none ]] && echo true || echo false)"
        fi
        if [[ $build == "${builds[0]}" ]] && ended "$build.experiments"; then
            holds "$build.experiments" 'every published experiment was made in short, and what could not be has a reason' \
                '(.experiments | length >= 9) and all(.experiments[].parts[]; .state == "measured") and ([.results[] | select(.measured != null)] | length >= 25)
                    and all(.results[]; .how != "" and (if .state == "measured" then .samples > 0 else .measured == null and .state != "not-made" end))'
        fi
        if [[ -e $answers/$build.experiments.out ]]; then
            holds "$build.experiments" 'the figures are told to be those of an emulator, all of them and each' \
                '.machine.emulated_by == "QEMU" and any(.notes[]; startswith("emulated by QEMU: "))
                    and all(.results[] | select(.state == "measured"); .how | endswith("; emulated by QEMU"))'
        fi
        if ended "$build.stalls"; then
            read -r from to < <(sed -n 's/^stopped \([0-9.]*\) \([0-9.]*\)$/\1 \2/p' "$answers/$build.stalls.err") || wrong "$build.stalls: it was not stopped"
            # /proc/uptime is cut off to hundredths of a second.
            holds "$build.stalls" 'a thread on every processor found that it was stopped all that time, and what moved is told of all stalls' \
                "(.results | length >= $cores) and ([.results[].stalls] | add) == ([.causes[].stalls] | add) and .notes == [.notes[] | select(contains(\"could not be read\") | not)]
                    and ([.longest[] | select(.cause == \"stopped\" and .start_ns <= (${from:-0} + 0.02) * 1e9 and .start_ns + .length_ns >= (${to:-0} - 0.01) * 1e9).cpu]
                        | unique | length) == (.results | length)"
        fi
        if ended "$build.stalls-plain"; then
            holds "$build.stalls-plain" 'a plain user goes without the class, and watches' \
                '.thread.policy == "other" and .results[0].questions > 0 and all(.longest[]; .cause != "untold")'
        fi
        if ended "$build.wakes-plain"; then
            holds "$build.wakes-plain" 'a plain user goes without the class, and knows of all deadlines' \
                '.thread.policy == "other" and any(.thread.refused[]; .setting == "policy") and .results[0].samples == 20'
        fi
    done
}

# --- live: the library's own live tests ---------------------------------------------------------------------------------

guest_live() {
    local build
    for build in "${builds[@]}"; do
        echo "step $build.live it-$build live:: instants:: sleeps:: --show-output"
        echo "step $build.wall it-$build --ignored --exact sleeps::a_sleep_follows_the_wall_clock_when_it_is_set --show-output"
    done
}

judge_live() {
    local build
    for build in "${builds[@]}"; do
        ended "$build.live" || { grep -E '^test .* FAILED$' -- "$answers/$build.live.out" >>"$answers/wrong" || true; continue; }
        if ! grep -qE '^test result: ok\. [1-9]' -- "$answers/$build.live.out"; then wrong "$build.live: no test passed"; fi
        if [[ $system_timer != none ]] && grep -q '^skipped: no System Timer' -- "$answers/$build.live.err"; then
            wrong "$build.live: skipped a test of the System Timer"
        fi
        shown "$(sed -n 's/^test result: ok\. \([0-9]*\) passed.*/\1 live tests/p' "$answers/$build.live.out")"
        ended "$build.wall" || continue
        if [[ $(grep -c '^followed: ' -- "$answers/$build.wall.out") != 3 ]]; then wrong "$build.wall: no sleep followed the wall clock"; fi
    done
}

# --- uio: a plain user reads the System Timer through a UIO window ------------------------------------------------------

guest_uio() {
    local build
    echo 'step uio-modules insmod /modules/uio.ko'
    echo "step uio-device insmod /modules/uio_systimer.ko address=$system_timer"
    echo 'chown root:plain /dev/uio0'
    echo 'chmod 0440 /dev/uio0'
    echo 'step uio cat /sys/class/uio/uio0/name /sys/class/uio/uio0/maps/map0/addr'
    for build in "${builds[@]}"; do
        echo "step $build.uio as plain hpt-$build probe bcm-systimer --format json"
        echo "step $build.uio-rates as plain hpt-$build calibrate --window 300ms --format json --source bcm-systimer"
    done
}

judge_uio() {
    local build name='' address=''
    ended uio-modules || return 0
    ended uio-device || return 0
    if ended uio; then
        { read -r name && read -r address; } <"$answers/uio.out" || true
        if [[ $name != hpt-systimer ]] || ((address != system_timer)); then wrong "uio: $name at $address"; fi
    fi
    for build in "${builds[@]}"; do
        if ended "$build.uio"; then
            holds "$build.uio" 'the plain user maps the System Timer from /dev/uio0' \
                'source("bcm-systimer") | .available and any(.evidence[]; . == "mapped read-only from /dev/uio0")'
        fi
        if ended "$build.uio-rates"; then
            holds "$build.uio-rates" 'the System Timer runs at 1 MHz by UIO' '[.calibrations[] | runs_at(1e6)] == [true]'
        fi
    done
    shown 'by UIO too'
}

# --- carry: the System Timer's low word wraps under a program -----------------------------------------------------------

guest_carry() {
    local build
    for build in "${builds[@]}"; do
        # A program waits for the next carry of the one and only timer: one after another.
        echo "step $build.carry it-$build --ignored --exact live::the_system_timer_carries --show-output"
    done
}

judge_carry() {
    local build
    for build in "${builds[@]}"; do
        ended "$build.carry" || continue
        if grep -E '^carried: ' -- "$answers/$build.carry.out" >"$answers/carried"; then
            shown "$(sed 's/ readings.*/ readings/' "$answers/carried") across a wrap"
        else
            wrong "$build.carry: nothing was carried: $(grep -m 1 -E '^skipped|^test result' -- "$answers/$build.carry.out" || echo 'it said nothing')"
        fi
    done
}

# --- suspend: the machine sleeps under a program that reads Instants ----------------------------------------------------

guest_suspend() {
    local build
    for build in "${builds[@]}"; do
        if [[ " ${shows[*]} " == *' watch '* ]]; then
            echo "hpt-$build watch --limit-step 100us --duration 10min --format json >/tmp/watched &"
            echo 'suspend_watch=$!'
            echo 'await $suspend_watch lines 1 /tmp/watched'
        fi
        echo "step $build.suspend it-$build --ignored --exact live::instants_are_right_when_the_machine_wakes --show-output"
        if [[ " ${shows[*]} " == *' watch '* ]]; then
            # And an interval of the machine that is awake again.
            echo "await \$suspend_watch grep -q '\"kind\":\"suspend\"' /tmp/watched"
            echo 'await $suspend_watch lines $(($(wc -l </tmp/watched) + 2)) /tmp/watched'
            echo 'kill -TERM $suspend_watch; wait $suspend_watch'
            echo "step $build.watch-suspend cat /tmp/watched"
        fi
    done
}

judge_suspend() {
    local build said slept_ms number='([0-9]+)'
    # What the test prints, with the six numbers that are judged here once more.
    local line="^suspended: source tsc, CLOCK_MONOTONIC $number ms, CLOCK_BOOTTIME $number ms; $number readings by two threads,"
    line+=" $number ns outside, stated $number ns, $number ns back"
    for build in "${builds[@]}"; do
        ended "$build.suspend" || continue
        said=$(grep -m 1 '^suspended: ' -- "$answers/$build.suspend.out") || said='it said nothing of a suspend'
        if [[ ! $said =~ $line ]]; then
            wrong "$build.suspend: $said"
            continue
        fi
        # One clock stood while the other ran on.
        slept_ms=$((BASH_REMATCH[2] - BASH_REMATCH[1]))
        if ((slept_ms < 1000)); then wrong "$build.suspend: was not suspended: $said"; fi
        if ((BASH_REMATCH[3] < 4000)); then wrong "$build.suspend: too few readings: $said"; fi
        if ((BASH_REMATCH[4] > BASH_REMATCH[5])); then wrong "$build.suspend: outside of what is stated: $said"; fi
        if ((BASH_REMATCH[6] > 0)); then wrong "$build.suspend: time went back: $said"; fi
        if ((BASH_REMATCH[5] > 100000)); then wrong "$build.suspend: states nothing worth having: $said"; fi
        shown "right after a suspend of $((slept_ms / 1000)) s"
        if [[ " ${shows[*]} " == *' watch '* ]] && ended "$build.watch-suspend"; then
            # QEMU's ACPI timer stands still once the machine was suspended: then it is accused, and nobody else.
            watched "$build.watch-suspend" 'the suspend is told, and is nobody'"'"'s fault' \
                '[.events[].kind] == ["suspend"] and .events[0].suspended_ns > 1e9 and .shared_faults == []
                    and all(.sources[]; .faults == 0 or (.source == "acpi-pm" and (.first_fault | contains("stood still"))))'
        fi
    done
    if ended kernel && ! grep -qF 'PM: suspend entry (deep)' -- "$answers/kernel.out"; then wrong 'suspend: the kernel did not suspend to RAM'; fi
}

# --- chipset: a PC's other clocks are read by root, and refused with reasons where they must be -------------------------

# chipset_clocks: those whose rate is known, with commas.
chipset_clocks() {
    local sources=perf-time
    if [[ $hpet == [0-9]* ]]; then sources+=,hpet,hpet-low; fi
    if [[ $acpi_timer == 0x* ]]; then sources+=,acpi-pm; fi
    echo "$sources"
}

# chipset_devices: of those, the devices.
chipset_devices() {
    local sources
    sources=$(chipset_clocks),
    sources=${sources#perf-time,}
    echo "${sources%,}"
}

guest_chipset() {
    local build
    for build in "${builds[@]}"; do
        echo "step $build.chipset hpt-$build probe --format json"
        echo "step $build.chipset-plain as plain hpt-$build probe --format json"
        # Between two of the same kind a rate is constant, whatever happens to the host: perf-time and the kernel's clock count by the TSC, which
        # is the host's, and devices by the clock of QEMU, which follows a clock of the host that is bent and may jump.
        echo "step $build.chipset-rates hpt-$build calibrate --window 300ms --format json --source perf-time"
        if [[ $(chipset_devices) == *hpet*acpi-pm* ]]; then
            echo "step $build.chipset-devices hpt-$build calibrate --window 300ms --format json --reference hpet --source hpet-low,acpi-pm"
        fi
        # Beside the kernel's clock they are watched, which takes it that they jump. Exit code 1: one did.
        if [[ -n $(chipset_devices) ]]; then
            echo "step $build.chipset-watch sh -c 'hpt-$build watch --duration 2s --format json --source $(chipset_devices) || test \$? = 1'"
        fi
        echo "step $build.chipset-bench hpt-$build bench --calls 500 --format json --source $(chipset_clocks),rtc0"
    done
}

judge_chipset() {
    local build step wanted
    for build in "${builds[@]}"; do
        step=$build.chipset
        if ended "$step"; then
            judge_hpet "$step"
            case $acpi_timer in
                0x*)
                    holds "$step" "acpi-pm at port $acpi_timer, 24 bits, 3.579545 MHz" \
                        'source("acpi-pm") | .available and .width_bits == 24 and .frequency_hz == 3579545 and .read_path == "port"
                            and any(.evidence[]; contains("port '"$acpi_timer"'"))'
                    ;;
                lockdown)
                    holds "$step" 'acpi-pm is refused to root, because the kernel is locked down' \
                        'source("acpi-pm") | .reason_kind == "no-right" and (.reason | contains("locked down")) and .remedy != null'
                    ;;
            esac
            holds "$step" 'rtc0 by its device, in whole seconds, and not steady' \
                'source("rtc0") | .available and .resolution_ns == 1e9 and (.steady | not) and any(.evidence[]; contains("RTC_RD_TIME of /dev/rtc0"))'
            holds "$step" 'perf-time, by a multiplier of the kernel that gives the rate of the TSC' \
                'source("perf-time") as $time | (source("tsc").frequency_hz / 1e6) as $mhz
                    | $time.available and $time.kernel_verdict == "trusted" and $time.read_path == "register"
                    and any($time.evidence[]; capture("to run at (?<mhz>[0-9.]+) MHz").mhz | tonumber | near($mhz))'
            holds "$step" 'the PIT is listed and not read' 'source("pit") | (.available | not) and .reason_kind == "needs-write"'
            holds "$step" 'there is no PTP clock' 'source("ptp0").reason_kind == "no-device"'
            holds "$step" 'none of them is chosen' '.choice.source == "tsc"'
        fi
        if ended "$step-plain"; then
            if [[ $hpet != none ]]; then
                holds "$step-plain" 'the HPET is refused to a plain user, with what helps' \
                    'source("hpet", "hpet-low") | .reason_kind == "no-right" and (.remedy | contains("KERNEL==\"hpet\""))'
            fi
            holds "$step-plain" 'the ACPI timer is refused to a plain user, with what helps' \
                'source("acpi-pm") | .reason_kind == "no-right" and (.reason | contains("FACP")) and .remedy != null'
            holds "$step-plain" 'perf-time is refused to a plain user, with what helps' \
                'source("perf-time") | .reason_kind == "no-right" and (.remedy | contains("perf_event_paranoid=2"))'
            holds "$step-plain" 'a plain user reads the real-time clock by since_epoch' \
                'source("rtc0") | .available and any(.evidence[]; contains("since_epoch"))'
            holds "$step-plain" 'the PIT is not read' 'source("pit").reason_kind == "needs-write"'
        fi
        if ended "$step-rates"; then
            holds "$step-rates" 'perf-time runs as fast as the clock that counts by the same counter' \
                '[.calibrations[].source] == ["perf-time"] and all(.calibrations[]; measured and (.error_ppm | fabs) <= .bound_ppm + 1)'
        fi
        if [[ $(chipset_devices) == *hpet*acpi-pm* ]] && ended "$step-devices"; then
            holds "$step-devices" 'the HPET and the ACPI timer run as fast as they must beside each other' \
                "[.calibrations[] | select(.source == \"hpet-low\") | runs_at($hpet)] + [.calibrations[] | select(.source == \"acpi-pm\") | runs_at(3579545)] == [true, true]"
        fi
        if [[ -n $(chipset_devices) ]] && ended "$step-watch"; then
            watched "$step-watch" "$(chipset_devices) run as fast as they must beside the kernel's clock" \
                "([.sources[].source] - (\"$(chipset_devices)\" / \",\") == []) and (.sources | length) == (\"$(chipset_devices)\" / \",\" | length)
                    and all(.sources[]; .lowest_ppm != null and (.lowest_ppm / 1e6 | fabs) <= $RATE_TOLERANCE and (.highest_ppm / 1e6 | fabs) <= $RATE_TOLERANCE)"
            shown "$(chipset_devices | sed 's/,/, /g') at their rates"
        fi
        if ended "$step-bench"; then
            wanted="$(chipset_clocks),rtc0"
            holds "$step-bench" 'each was read to the end' "((\"$wanted\" / \",\") - [.results[].id] == []) and all(.results[]; .complete)"
        fi
    done
    case $acpi_timer in
        lockdown) shown 'no ports under lockdown' ;;
    esac
    case $hpet in
        none | unmapped) shown "HPET refused: $hpet" ;;
    esac
}

# judge_hpet STEP: as the board's file says: its rate in Hz, `none`, or `unmapped`.
judge_hpet() {
    case $hpet in
        none)
            holds "$1" 'there is no HPET, though there is a file' 'source("hpet", "hpet-low") | .reason_kind == "no-device" and (.reason | contains("EBUSY"))'
            ;;
        unmapped)
            holds "$1" 'the HPET is not mapped, and what helps' \
                'source("hpet", "hpet-low") | .reason_kind == "not-offered" and (.remedy | contains("hpet_mmap=1"))'
            ;;
        *)
            holds "$1" "hpet at $hpet Hz" "source(\"hpet\") | .available and .width_bits == 64 and .frequency_hz == $hpet and .read_path == \"mmio\""
            holds "$1" "hpet-low at $hpet Hz" "source(\"hpet-low\") | .available and .width_bits == 32 and .frequency_hz == $hpet"
            ;;
    esac
}

# --- ptp: a network card's clock is read, and one that is wrong is refused ------------------------------------------------

# The board has two cards: what the kernel calls the one whose clock is right under emulation, and the one whose clock is not.
guest_ptp() {
    local build module
    for module in i2c-algo-bit igb e1000e; do echo "step ptp-$module insmod /modules/$module.ko"; done
    # Their numbers are given out as they come.
    echo 'await 1 test -e /dev/ptp1'
    echo "step ptp-names sh -c 'for clock in ptp0 ptp1; do basename \$(readlink -f /sys/class/ptp/\$clock/device/driver); done'"
    for build in "${builds[@]}"; do
        echo "step $build.ptp hpt-$build probe --format json"
        echo "step $build.ptp-plain as plain hpt-$build probe --format json"
        echo "step $build.ptp-rates hpt-$build calibrate --window 300ms --format json --source ptp0"
        echo "step $build.ptp-bench hpt-$build bench --calls 500 --format json --source ptp0"
    done
}

judge_ptp() {
    local build module
    for module in i2c-algo-bit igb e1000e; do ended "ptp-$module" || return 0; done
    if ended ptp-names && [[ $(paste -s -d ' ' "$answers/ptp-names.out") != 'igb e1000e' ]]; then
        wrong "ptp: not igb and e1000e: $(paste -s -d ' ' "$answers/ptp-names.out")"
    fi
    for build in "${builds[@]}"; do
        if ended "$build.ptp"; then
            holds "$build.ptp" 'the igb card has a clock, which may be steered' \
                'source("ptp0") | .available and .frequency_hz == 1e9 and .steered and (.steady | not) and .read_path == "syscall"
                    and any(.evidence[]; . == "driver: igb")'
            holds "$build.ptp" 'it says how far it is from CLOCK_REALTIME, with a bound below 10 ms' \
                '[source("ptp0").evidence[] | capture("beside CLOCK_REALTIME: [-+][0-9]+ ns, ± (?<bound>[0-9]+) ns, a bound, by PTP_SYS_OFFSET_EXTENDED").bound | tonumber]
                    | length == 1 and all(. < 1e7)'
            holds "$build.ptp" "the e1000e card's clock is refused, because it is none" 'source("ptp1") | (.available | not) and .reason_kind == "self-test"'
            holds "$build.ptp" 'perf-time, by a counter of fewer than 64 bits at the rate of the ARM counter' \
                'source("perf-time") | .available and any(.evidence[]; contains("run at 62.500000 MHz")) and any(.evidence[]; contains("a counter of 5"))'
            holds "$build.ptp" 'the real-time clock of this machine' 'source("rtc0") | .available and any(.evidence[]; contains("rtc-pl031"))'
            holds "$build.ptp" 'neither is chosen' '.choice.source | startswith("ptp") | not'
        fi
        if ended "$build.ptp-plain"; then
            holds "$build.ptp-plain" 'a plain user is refused, with what helps' \
                'source("ptp0", "ptp1") | .reason_kind == "no-right" and (.remedy | contains("KERNEL==\"ptp"))'
        fi
        if ended "$build.ptp-rates"; then
            holds "$build.ptp-rates" 'it runs at 1 GHz' '[.calibrations[] | runs_at(1e9)] == [true]'
            shown "ptp0 $(jq -r '.calibrations[0].frequency_hz / 1e4 | round / 100' "$answers/$build.ptp-rates.out") MHz, a wrong ptp1 refused"
        fi
        if ended "$build.ptp-bench"; then holds "$build.ptp-bench" 'it was read to the end' '[.results[].complete] == [true]'; fi
    done
}

# --- watch: sources are followed, and nobody is accused; what happens to the machine is told -----------------------------

guest_watch() {
    local build
    # A jump of the clocks of a busy host, by which devices and the TSC count, is not what is looked for.
    # Something is done to the machine in the middle of a watch. It waits for what the watch says, by \$watched and /tmp/while-watched.
    cat <<'GUEST'
cat >/tmp/watch-while <<'WHILE'
#!/bin/sh
# watch-while BUILD COMMAND...: what the watch said, on standard output; its exit code is this program's.
build=$1
shift
: >/tmp/while-watched
hpt-$build watch --limit-step 100us --duration 1d --format json >/tmp/while-watched &
export watched=$!
await $watched lines 1 /tmp/while-watched
"$@" >&2
# The interval in which it ended, and another.
await $watched lines $(($(wc -l </tmp/while-watched) + 2)) /tmp/while-watched
kill -TERM $watched
wait $watched
status=$?
cat /tmp/while-watched
exit $status
WHILE
cat >/tmp/cores-compared <<'COMPARED'
#!/bin/sh
exec await $watched grep -q '"second_cpu":1,' /tmp/while-watched
COMPARED
cat >/tmp/watch-limit <<'LIMIT'
#!/bin/sh
hpt-$1 watch --source tsc --limit-ppm 0.001 --interval 3s --duration 1d --format json >/tmp/limit-watched &
await $! grep -q 'off the stated rate' /tmp/limit-watched
kill -TERM $!
wait $!
status=$?
cat /tmp/limit-watched
echo "status $status"
LIMIT
chmod 755 /tmp/watch-while /tmp/cores-compared /tmp/watch-limit
GUEST
    cat <<GUEST
cat >/tmp/switch <<'SWITCH'
#!/bin/sh
# To another clock source, and back when the watch has told it.
echo $OTHER_CLOCK_SOURCE >$CLOCK_SOURCE_FILE
await \$watched grep -q '"kind":"clock-source"' /tmp/while-watched
echo $clock_source >$CLOCK_SOURCE_FILE
SWITCH
cat >/tmp/flicker <<'FLICKER'
#!/bin/sh
# There and back between two looks of the watch: it is stopped meanwhile.
kill -STOP \$watched
await \$watched stopped \$watched
echo $OTHER_CLOCK_SOURCE >$CLOCK_SOURCE_FILE
echo $clock_source >$CLOCK_SOURCE_FILE
kill -CONT \$watched
FLICKER
chmod 755 /tmp/switch /tmp/flicker
GUEST
    for build in "${builds[@]}"; do
        echo "step $build.watch /tmp/watch-while $build /tmp/cores-compared"
        echo "step $build.watch-plain as plain hpt-$build watch --limit-step 100us --duration 2s --format json"
        echo "step $build.watch-set /tmp/watch-while $build date -s '2031-01-01 00:00:00'"
        [[ $tsc != none ]] || continue
        # To a plain user the kernel's log is closed, and BogoMIPS is what the kernel found at first: not the rate that it goes by, but how far off that is, is
        # chance. The watch lasts until it is sure of it.
        echo "step $build.watch-limit as plain /tmp/watch-limit $build"
        echo "step $build.watch-switched sh -c '/tmp/watch-while $build /tmp/switch || true'"
        echo "step $build.watch-flicker sh -c '/tmp/watch-while $build /tmp/flicker || true'"
    done
}

judge_watch() {
    local build step
    for build in "${builds[@]}"; do
        step=$build.watch
        if ended "$step"; then
            watched "$step" 'nobody is accused' '.misbehaved | not'
            watched "$step" 'the first two CPUs were compared' '[.cores[] | select(.first_cpu == 0 and .second_cpu == 1 and .fault == null)] | length == 1'
            watched "$step" "$(processors_counter) and the kernel clocks were watched" \
                "([.sources[].source] | contains([\"$(processors_counter)\", \"monotonic\", \"realtime\"])) and (.rounds as \$rounds | \$rounds > 1 and all(.sources[]; .bursts * 2 > \$rounds))"
            watched "$step" 'each rate has its bound' 'all(.sources[]; .lowest_bound_ppm > 0 and .highest_bound_ppm > 0)'
            if [[ $system_timer != none ]]; then
                watched "$step" 'the System Timer was watched' '[.sources[].source] | contains(["bcm-systimer"])'
            fi
            watched "$step" 'nothing happened' '.events == []'
            shown 'watched'
        fi
        if ended "$step-plain"; then watched "$step-plain" 'a plain user watches as well' '.misbehaved | not'; fi
        if [[ $tsc == none ]]; then
            if ended "$step-set"; then watch_was_set "$step-set"; fi
            continue
        fi
        if ended "$step-limit" && ! grep -qxF 'status 1' -- "$answers/$step-limit.out"; then wrong "$step-limit: a rate beyond the limit is no negative answer"; fi
        if ended "$step-set"; then watch_was_set "$step-set"; fi
        # Nothing is said of faults: under the ACPI timer a guest whose host is busy was seen to lose half a second of CLOCK_MONOTONIC_RAW, which is one.
        if ended "$step-switched"; then
            watched "$step-switched" 'other clock sources are told' '[.events[].kind] == ["clock-source", "clock-source"]'
            watched "$step-switched" 'the note of what the reference counts by follows the change' \
                '[.notes[] | capture("^from .* itself counts by (?<by>[a-z-]+):").by] == ["tsc", "acpi-pm", "tsc"]'
        fi
        # It is told by the log alone, which says that it turned there and back.
        if ended "$step-flicker"; then
            watched "$step-flicker" 'one that came and went is told, and only that' \
                '[.events[].kind] == ["clock-source"] and (.events[0].said | contains("then to"))'
        fi
    done
}

# watch_was_set STEP
watch_was_set() {
    watched "$1" 'that wall time was set is told, and is nobody'"'"'s fault' \
        '(.misbehaved | not) and ([.sources[] | {(.source): .set}] | add | .realtime == 1 and .monotonic == 0)'
}

# watched STEP WHAT FILTER: the last document of a watch is so, by jq, and the others are its intervals.
watched() {
    [[ -e $answers/$1.out ]] || return 0
    jq --slurp --exit-status "all(.[:-1][]; .kind == \"watch\") and (.[-1] | .kind == \"watch-summary\" and ($3))" "$answers/$1.out" >/dev/null 2>"$answers/jq.err" ||
        wrong "$1: not so: $2 $(head -n 1 -- "$answers/jq.err")"
}

# --- clocksource: the kernel's clock source is listed, set, compared and put back ---------------------------------------

# Another clock source than the board's own, which it offers.
OTHER_CLOCK_SOURCE=acpi_pm
CLOCK_SOURCE_FILE=/sys/devices/system/clocksource/clocksource0/current_clocksource

guest_clocksource() {
    local build signal what
    # A comparison that would take for ever gets a signal once it has changed the clock source; then what is left, and what helps.
    cat <<GUEST
cat >/tmp/compare-until <<'COMPARE'
#!/bin/sh
build=\$1 signal=\$2
hpt-\$build clocksource compare --source $OTHER_CLOCK_SOURCE --calls 1e9 --yes --format json >/tmp/compared 2>/tmp/said &
await \$! holds $CLOCK_SOURCE_FILE $OTHER_CLOCK_SOURCE
echo "during \$(cat $CLOCK_SOURCE_FILE)"
kill -s \$signal \$!
wait \$!
echo "status \$?"
echo "after \$(cat $CLOCK_SOURCE_FILE)"
if [ \$signal = KILL ]; then
    hpt-\$build clocksource set $clock_source --yes 2>&1 | grep -c 'was left at'
    hpt-\$build restore --list | grep -c $OTHER_CLOCK_SOURCE
    hpt-\$build restore >/dev/null
    echo "restored \$? \$(cat $CLOCK_SOURCE_FILE)"
fi
hpt-\$build restore | grep -c '^Nothing to restore'
COMPARE
chmod 755 /tmp/compare-until
GUEST
    for build in "${builds[@]}"; do
        what="step $build.clocksource"
        echo "$what hpt-$build clocksource --format json"
        echo "$what-plain as plain hpt-$build clocksource --format json"
        # An ARM board has one clock source, and no other to turn to.
        [[ $tsc != none ]] || continue
        echo "$what-compare hpt-$build clocksource compare --calls 2000 --yes --format json"
        echo "$what-compared cat $CLOCK_SOURCE_FILE"
        # Exit code 1: the published machine's sources are not all here.
        echo "$what-published sh -c 'hpt-$build experiment clock-sources --short --all-clock-sources --yes --store /tmp/kept --format json || test \$? = 1'"
        echo "$what-published-left cat $CLOCK_SOURCE_FILE"
        echo "$what-set hpt-$build clocksource set $OTHER_CLOCK_SOURCE --calls 2000 --yes --format json"
        echo "$what-is-set cat $CLOCK_SOURCE_FILE"
        echo "$what-restore hpt-$build restore --format json"
        echo "$what-restored cat $CLOCK_SOURCE_FILE"
        echo "$what-refused sh -c 'hpt-$build clocksource set $OTHER_CLOCK_SOURCE </dev/null; echo \$?; as plain hpt-$build clocksource set $OTHER_CLOCK_SOURCE --yes; echo \$?; cat $CLOCK_SOURCE_FILE'"
        for signal in INT TERM HUP KILL; do echo "$what-$signal /tmp/compare-until $build $signal"; done
    done
}

judge_clocksource() {
    local build signal step status
    for build in "${builds[@]}"; do
        step=$build.clocksource
        if ended "$step"; then
            holds "$step" "in use is $clock_source, and the log was read" \
                '([.sources[] | select(.current) | .name] == [$clock_source]) and .log.readable and .log.from_the_beginning'
            holds "$step" 'every source has its cost and its risk' 'all(.sources[]; .cost != null and .risk != null)'
            if [[ $tsc != none ]]; then
                holds "$step" 'the boot parameter of the board is told' \
                    '[.boot_parameters[] | select(.set) | .parameter] | index("tsc=reliable") != null'
            fi
        fi
        if ended "$step-plain"; then
            holds "$step-plain" 'a plain user is told that the log was not read, and what helps' '(.log.readable | not) and .log.remedy != null'
        fi
        [[ $tsc != none ]] || continue
        if ended "$step-compare"; then
            holds "$step-compare" 'seven clocks under each source, read to the end' \
                '.after == .before and .before == $clock_source and (.not_taken == []) and (.results | length) == 7 * (.wanted | length)
                    and (.wanted | length) >= 2 and all(.results[]; .complete)'
            # Whether a read went by the vDSO is told by its cost, which a busy host distorts.
            holds "$step-compare" 'under another source than the TSC a read is a system call' \
                'all(.results[] | select(.clock == "monotonic" and .clock_source != "tsc"); .read_path == "syscall")'
            # What the published examples show: all claim a nanosecond, and coarse clocks the tick that they step by, under whichever source. Where the host is
            # busy, ticks of an emulated machine come late, and two at once.
            holds "$step-compare" 'what clocks claim, and what they step by' \
                'all(.results[]; if .clock | endswith("coarse") then .resolution_ns >= 1e6 and .granularity_ns != null and (.granularity_ns / .resolution_ns | round >= 1 and (. - round | fabs) < 0.1)
                    else .resolution_ns == 1 and .granularity_ns < 1e6 end)'
            shown "clock sources compared: $(jq -r '.wanted | join(", ")' "$answers/$step-compare.out")"
        fi
        clocksource_is "$step-compared" "$clock_source"
        if ended "$step-published"; then
            holds "$step-published" "what was published under the TSC and $OTHER_CLOCK_SOURCE was measured under both, to the end" \
                "[.experiments[].parts[].state] == [\"measured\"]
                    and ([.results[] | select(.what == \"monotonic, tsc\" or .what == \"monotonic-coarse, $OTHER_CLOCK_SOURCE\") | .samples] == [100000, 100000])
                    and all(.results[]; .state == \"measured\" or (.state == \"missing\" and (.how | contains(\"does not offer\"))))"
        fi
        clocksource_is "$step-published-left" "$clock_source"
        if ended "$step-set"; then
            holds "$step-set" "set from $clock_source to $OTHER_CLOCK_SOURCE, measured under both" \
                ".before == \$clock_source and .after == \"$OTHER_CLOCK_SOURCE\" and [.results[].clock_source] == [\$clock_source, \"$OTHER_CLOCK_SOURCE\"]"
        fi
        clocksource_is "$step-is-set" "$OTHER_CLOCK_SOURCE"
        if ended "$step-restore"; then
            holds "$step-restore" 'it was put back' '[.settings[].outcome] == ["put-back"]'
        fi
        clocksource_is "$step-restored" "$clock_source"
        said_all "$step-refused" "2;2;$clock_source"
        for signal in INT TERM HUP; do
            said_all "$step-$signal" "during $OTHER_CLOCK_SOURCE;status 0;after $clock_source;1"
        done
        status=137
        said_all "$step-KILL" "during $OTHER_CLOCK_SOURCE;status $status;after $OTHER_CLOCK_SOURCE;1;1;restored 0 $clock_source;1"
    done
}

# clocksource_is STEP NAME: the kernel's clock source then.
clocksource_is() {
    if ended "$1" && [[ $(<"$answers/$1.out") != "$2" ]]; then wrong "$1: the clock source is $(<"$answers/$1.out"), not $2"; fi
}

# said_all STEP LINES: all that it said, with ; between the lines.
said_all() {
    local said
    ended "$1" || return 0
    said=$(paste -s -d ';' "$answers/$1.out")
    if [[ $said != "$2" ]]; then wrong "$1: said $said, not $2"; fi
}

# --- doctor: what is in the way is found, by rights and by the machine; its capture says the same -----------------------

guest_doctor() {
    local build
    for build in "${builds[@]}"; do
        echo "step $build.doctor sh -c 'hpt-$build doctor --format json; echo status \$? >&2'"
        echo "step $build.doctor-plain as plain sh -c 'hpt-$build doctor --format json; echo status \$? >&2'"
        echo "step $build.doctor-cpu sh -c 'hpt-$build doctor --cpu 0 --format json; echo status \$? >&2'"
        echo "step $build.doctor-captured sh -c 'hpt-$build capture c-$build.capture >/dev/null && hpt-$build doctor --host c-$build.capture --format json; echo status \$? >&2'"
        echo "step $build.doctor-bare unshare -m sh -c 'umount -l /sys && umount -l /proc && hpt-$build doctor --format json; echo status \$? >&2'"
    done
}

judge_doctor() {
    local build step
    for build in "${builds[@]}"; do
        for step in "$build.doctor" "$build.doctor-plain" "$build.doctor-cpu" "$build.doctor-captured" "$build.doctor-bare"; do
            ended "$step" || continue
            if ! grep -qxF 'status 1' -- "$answers/$step.err"; then wrong "$step: $(tail -n 1 -- "$answers/$step.err"), not 1: something is in the way of each board"; fi
            holds "$step" 'every rule answers, and what is found has a remedy' \
                '(.rules | length > 30) and all(.rules[]; .seen != "" and (.verdict != "found" or (.remedies | length > 0)))'
        done
        for step in "$build.doctor" "$build.doctor-plain"; do
            diagnosed "$step" 'throttling is on, and this kernel is one that it bites' 'found("throttling") == ["major", true]'
            diagnosed "$step" 'it is no kernel for real time' 'found("preemption") == ["minor", true]'
            diagnosed "$step" 'nobody keeps wall time' 'found("wall-time") == ["major", true]'
            diagnosed "$step" "clock source $clock_source is as it should be, or the only one" 'verdict("clock-source") | . == "fine" or . == "not-here"'
            if ((cores == 1)); then
                diagnosed "$step" 'one CPU cannot be kept free, and that is said' 'found("isolated-cpus") == ["to-know", true]'
            else
                diagnosed "$step" 'no CPU is kept free' 'found("isolated-cpus") == ["major", true]'
            fi
            if [[ $clock_source == timer || $clock_source == arm,sp804 ]]; then
                diagnosed "$step" 'the vDSO does not read the clock source' 'found("clock-by-system-call") == ["minor", true]'
            else
                diagnosed "$step" 'the vDSO reads the clock source' 'verdict("clock-by-system-call") == "fine"'
            fi
        done
        diagnosed "$build.doctor" 'root has the right to a real-time class, and is told all' 'verdict("right-to-realtime") == "fine" and .root_would_be_told == []'
        diagnosed "$build.doctor-plain" 'a plain user has not, and what root would be told is said' \
            'found("right-to-realtime") == ["major", true] and (.root_would_be_told | length == 1)'
        if ((cores == 1)); then
            diagnosed "$build.doctor-cpu" 'what comes to the only CPU cannot be sent away' \
                '.cpu == 0 and all(verdict("kernel-threads", "interrupts", "tick"); . == "not-here")'
        else
            diagnosed "$build.doctor-cpu" 'it is asked for one CPU' '.cpu == 0 and verdict("kernel-threads") == "found"'
        fi
        diagnosed "$build.doctor-captured" 'it is judged from files' '.machine.live | not'
        diagnosed "$build.doctor-bare" 'without /proc and /sys that is said' '[.rules[] | select(.verdict == "untold")] | length > 5'
        if [[ $(verdicts "$build.doctor") == "$(verdicts "$build.doctor-captured")" ]]; then
            shown 'diagnosed'
        else
            wrong "$build.doctor-captured: not the verdicts of $build.doctor"
        fi
    done
}

# verdicts STEP: what every rule says, without the figures.
verdicts() { [[ ! -e $answers/$1.out ]] || jq -c '[.rules[] | [.rule, .verdict, .severity, .certain]]' "$answers/$1.out" 2>/dev/null; }

# diagnosed STEP WHAT FILTER: a diagnosis is so, by jq.
diagnosed() {
    holds "$1" "$2" "
        def rule(\$id): .rules[] | select(.rule == \$id);
        def verdict(\$id): rule(\$id).verdict;
        def found(\$id): rule(\$id) | [.severity, .certain];
        $3"
}

# --- realtime: a thread gets its class, and the machine's throttling is off meanwhile and back after -------------------

RT_RUNTIME_FILE=/proc/sys/kernel/sched_rt_runtime_us
# What Linux begins with.
RT_RUNTIME_US=950000

guest_realtime() {
    local build signal what few='--count 20 --duration 1ms --strategy nanosleep,hpt --format json'
    # A sleep that would take for ever gets a signal once throttling is off; then what is left, and what helps.
    cat <<GUEST
cat >/tmp/sleep-until <<'SLEEP'
#!/bin/sh
build=\$1 signal=\$2
hpt-\$build sleep --count 1000000 --duration 10ms --strategy nanosleep --fifo 1 --no-throttling --format json >/tmp/slept 2>/tmp/said &
await \$! holds $RT_RUNTIME_FILE -1
await \$! /tmp/sleeps-in-class \$!
echo "during \$(cat $RT_RUNTIME_FILE)"
kill -s \$signal \$!
wait \$!
echo "status \$?"
echo "after \$(cat $RT_RUNTIME_FILE)"
if [ \$signal = KILL ]; then
    hpt-\$build restore --list | grep -c sched-rt-runtime-us
    hpt-\$build restore >/dev/null
    echo "restored \$? \$(cat $RT_RUNTIME_FILE)"
fi
hpt-\$build restore | grep -c '^Nothing to restore'
SLEEP
cat >/tmp/sleeps-in-class <<'SLEEPS'
#!/bin/sh
# One of its threads runs under SCHED_FIFO, and has slept some times.
for task in /proc/\$1/task/*; do
    [ "\$(sed 's/.*) //' \$task/stat | cut -d ' ' -f 39)" = 1 ] && awk '/^voluntary_ctxt_switches/ { exit !(\$2 >= 5) }' \$task/status && exit 0
done
exit 1
SLEEPS
chmod 755 /tmp/sleep-until /tmp/sleeps-in-class
cat >/tmp/told <<'TOLD'
#!/bin/sh
# Its priority and its policy, as the kernel tells them.
cut -d ' ' -f 40,41 /proc/\$\$/stat
cat $RT_RUNTIME_FILE
exit 7
TOLD
chmod 755 /tmp/told
GUEST
    for build in "${builds[@]}"; do
        what="step $build.realtime"
        echo "$what hpt-$build sleep $few --fifo 50 --lock-memory --awake --no-throttling"
        echo "$what-rr hpt-$build sleep $few --rr 2 --cpu 0"
        echo "$what-deadline hpt-$build sleep $few --deadline 50ms/200ms"
        echo "$what-spins sh -c 'hpt-$build sleep --count 2 --duration 1ms --strategy busy --fifo 1 2>&1 >/dev/null | grep -c accept-throttling'"
        echo "$what-plain as plain hpt-$build sleep $few --fifo 50 --lock-memory --awake --no-throttling --governor performance --best-effort"
        # Exit code 1 would say that a published figure is missing.
        echo "$what-published hpt-$build experiment isolated-core --short --no-throttling --store /tmp/kept --format json"
        echo "$what-run sh -c 'hpt-$build run --rr 3 --cpu 0 --no-throttling /tmp/told; echo \$?'"
        echo "$what-after cat $RT_RUNTIME_FILE"
        for signal in INT TERM HUP KILL; do echo "$what-$signal /tmp/sleep-until $build $signal"; done
    done
}

judge_realtime() {
    local build signal step
    for build in "${builds[@]}"; do
        step=$build.realtime
        if ended "$step"; then
            holds "$step" 'by SCHED_FIFO on one CPU, with memory locked, CPUs awake and throttling off, as the kernel tells it' \
                '.thread | .policy == "fifo" and .priority == 50 and (.cpus | length) == 1 and .locked_bytes > 0 and .wake_latency_us == 0
                    and .bandwidth.runtime_us == -1 and .refused == []'
        fi
        if ended "$step-rr"; then
            holds "$step-rr" "by SCHED_RR on CPU 0, and throttling as it was" \
                ".thread | .policy == \"rr\" and .priority == 2 and .cpus == [0] and .bandwidth.runtime_us == $RT_RUNTIME_US and .locked_bytes == 0"
        fi
        if ended "$step-deadline"; then
            holds "$step-deadline" 'by SCHED_DEADLINE, on every CPU' \
                '.thread | .policy == "deadline" and .deadline_runtime_ns == 5e7 and .deadline_period_ns == 2e8 and .refused == []'
        fi
        said_all "$step-spins" 1
        if ended "$step-plain"; then
            holds "$step-plain" 'a plain user goes without, is told why, and changes nothing' \
                "([.thread.refused[].setting] | contains([\"throttling\", \"governor\", \"wake-latency\", \"policy\"]))
                    and .thread.policy == \"other\" and .thread.bandwidth.runtime_us == $RT_RUNTIME_US
                    and any(.thread.refused[]; .setting == \"policy\" and (.reason | contains(\"CAP_SYS_NICE\")))"
        fi
        if ended "$step-published"; then
            holds "$step-published" 'the published core of its own: by SCHED_FIFO 99, throttling off, every delay in the distribution' \
                '(.results[] | select(.what == "worst")) | .published == 41 and .samples == 1000 and ([.distribution[][1]] | add) == 1000
                    and (.how | contains("SCHED_FIFO 99, sched_rt_runtime_us off"))'
        fi
        said_all "$step-run" '3 2;-1;7'
        said_all "$step-after" "$RT_RUNTIME_US"
        for signal in INT TERM HUP; do said_all "$step-$signal" "during -1;status 0;after $RT_RUNTIME_US;1"; done
        said_all "$step-KILL" "during -1;status 137;after -1;1;restored 0 $RT_RUNTIME_US;1"
    done
    shown 'real-time classes, throttling off and on again'
}

# --- gpio: edges from a line to the program at another, which a module wires together; and what is missing where nothing is wired --------------------

# Edges in each run; one in so many gives no interrupt where that is tried; and how late it is made where that is tried.
GPIO_EDGES=200
GPIO_LOSE_EVERY=10
GPIO_DELAY_US=2000

guest_gpio() {
    local build what loop=/sys/module/gpio_loop/parameters run wired all
    for build in "${builds[@]}"; do
        what="step $build.gpio"
        # The exit codes of what does not work are part of the answer.
        echo "$what-own sh -c 'hpt-$build latency gpio --list --format json; echo \$? >&2'"
        if [[ $gpio == none ]]; then
            echo "$what-none sh -c 'hpt-$build latency gpio --out 0 --in 1 2>&1; echo \$?'"
            continue
        fi
        echo "$what-unwired sh -c 'hpt-$build latency gpio --chip $gpio --out ${gpio_unwired% *} --in ${gpio_unwired#* } --timeout 200ms --format json; echo \$? >&2'"
        echo "$what-plain sh -c 'as plain hpt-$build latency gpio --out 0 --in 1 2>&1; echo \$?'"
    done
    if [[ $gpio == none ]]; then return; fi
    # What ends it in the middle, and what the lines are after that.
    cat <<'GUEST'
cat >/tmp/gpio-until <<'EDGES'
#!/bin/sh
build=$1 signal=$2
hpt-$build latency gpio --out LOOP_OUT --in LOOP_IN --duration 1h --interval 5ms --format json >/tmp/edges 2>/tmp/said &
await $! sh -c "! holds /sys/module/gpio_loop/parameters/changes $3"
hpt-$build latency gpio --list --format csv | grep -c ',output,true,hpt,'
kill -s $signal $!
wait $!
echo "status $?"
grep -c '"interrupted": true' /tmp/edges
hpt-$build latency gpio --list --format csv | grep -c ',input,true,hpt,'
hpt-$build latency gpio --list --format csv | grep 'LOOP_\(OUT\|IN\),' | cut -d, -f5-
EDGES
chmod 755 /tmp/gpio-until
GUEST
    echo 'step gpio-load insmod /modules/gpio_loop.ko'
    for build in "${builds[@]}"; do
        what="step $build.gpio"
        run="hpt-$build latency gpio --interval 2ms --format json"
        echo "$what-list hpt-$build latency gpio --list --chip gpio-loop --format json"
        wired='--out LOOP_OUT --in LOOP_IN' all="--count $GPIO_EDGES --timeout 10s"
        echo "$what-edges $run $wired $all --raw /tmp/raw --write line=/tmp/line"
        echo "$what-raw cat /tmp/raw"
        echo "$what-line cat /tmp/line"
        echo "$what-spin $run --chip gpio-loop --out 2 --in 3 $all --listen spin"
        echo "$what-realtime $run $wired $all --fifo 40 --cpu 0 --lock-memory"
        echo "echo $GPIO_DELAY_US >$loop/delay_us"
        echo "$what-late $run $wired $all"
        echo "$what-break sh -c '$run $wired $all --figure set-to-edge --break-above 1ms; echo \$? >&2'"
        echo "echo 0 >$loop/delay_us"
        echo "echo $GPIO_LOSE_EVERY >$loop/lose_every"
        echo "$what-lost sh -c '$run $wired --timeout 1s --count 50; echo \$? >&2'"
        echo "echo 0 >$loop/lose_every"
        echo "changes=\$(cat $loop/changes)"
        echo "$what-pulse hpt-$build latency timer --count 100 --interval 2ms --pulse LOOP_OPEN --format json"
        echo "echo \$((\$(cat $loop/changes) - changes)) >/tmp/pulses"
        echo "$what-pulses cat /tmp/pulses"
        for what in 'LOOP_KEPT --in LOOP_IN' 'LOOP_OUT --in LOOP_OPEN' 'LOOP_OUT --in LOOP_OUT' 'gpio-loop:6 --in LOOP_IN' 'loop_out --in LOOP_IN' '0 --in 1' 'LOOP_IN --in LOOP_OUT'; do
            echo "hpt-$build latency gpio --out $what --count 1 >>/tmp/refused-$build 2>&1; echo \$? >>/tmp/refused-$build"
        done
        echo "step $build.gpio-refused cat /tmp/refused-$build"
        echo "step $build.gpio-INT /tmp/gpio-until $build INT \"\$(cat $loop/changes)\""
        echo "step $build.gpio-TERM /tmp/gpio-until $build TERM \"\$(cat $loop/changes)\""
        echo "step $build.gpio-HUP /tmp/gpio-until $build HUP \"\$(cat $loop/changes)\""
    done
    echo 'step gpio-unload rmmod gpio_loop'
}

judge_gpio() {
    local build step signal edges="all(.results[]; .samples == $GPIO_EDGES) and ([.results[].figure] == [\"set-to-edge\", \"edge-to-program\", \"whole\"])"
    local nothing='.lost == 0 and .strange == 0 and .dropped == 0 and .elsewhen == 0'
    local adds_up='[.results[].mean_ns] as [$set, $edge, $whole] | ($set + $edge - $whole) | fabs < 1'
    for build in "${builds[@]}"; do
        step=$build.gpio
        if [[ $gpio == none ]]; then
            if ended "$step-own"; then
                holds "$step-own" 'no chip is listed, with the reason' '.chips == [] and .lines == [] and any(.notes[]; contains("there is no /dev/gpiochip*: the kernel was built without"))'
                gpio_code "$step-own" err 1
            fi
            if ended "$step-none"; then
                grep -q 'there is no /dev/gpiochip\*: the kernel was built without' "$answers/$step-none.out" || wrong "$step-none: no reason"
                gpio_code "$step-none" out 2
            fi
            continue
        fi
        if ended "$step-own"; then
            holds "$step-own" "$gpio is listed with its lines" ".chips[] | select(.label == \"$gpio\") | .lines > 7 and .reason == null"
            gpio_code "$step-own" err 0
        fi
        if ended "$step-unwired"; then
            holds "$step-unwired" 'where nothing is wired no edge comes, which is said' \
                '.lost == 1 and .strange == 0 and .results == [] and any(.notes[]; startswith("no edge came at ") and contains("wired"))'
            gpio_code "$step-unwired" err 2
        fi
        if ended "$step-plain"; then
            grep -q 'no right to open /dev/gpiochip0; .*group' "$answers/$step-plain.out" || wrong "$step-plain: $(head -n 1 -- "$answers/$step-plain.out")"
            gpio_code "$step-plain" out 2
        fi
        ended gpio-load || return 0
        if ended "$step-list"; then
            holds "$step-list" 'the lines that are wired, and the one that the module has' \
                '([.lines[].name] == ["LOOP_OUT", "LOOP_IN", "LOOP_OUT2", "LOOP_IN2", "LOOP_OPEN", "LOOP_KEPT"])
                    and ([.lines[] | select(.used) | .consumer] == ["gpio-loop-itself"]) and ([.lines[] | select(.direction == "output") | .line] == [5])'
        fi
        if ended "$step-edges"; then
            holds "$step-edges" 'every edge came, and the parts are the whole' "($edges) and ($nothing) and .listen == \"poll\" and .source == \"monotonic\" and ($adds_up)"
            gpio_raw "$step"
        fi
        if ended "$step-spin"; then holds "$step-spin" 'the same by reading again and again' "($edges) and ($nothing) and .listen == \"spin\" and .out.line == 2 and ($adds_up)"; fi
        if ended "$step-realtime"; then
            holds "$step-realtime" 'the same by SCHED_FIFO on CPU 0' "($edges) and (.thread | .policy == \"fifo\" and .priority == 40 and .cpus == [0] and .locked_bytes > 0)"
        fi
        if ended "$step-late"; then
            holds "$step-late" 'an interrupt that is made late is seen late' "($edges) and ($nothing) and .results[0].min_ns >= ($GPIO_DELAY_US * 1000 * 0.999) and .results[2].min_ns > .results[0].min_ns"
        fi
        if ended "$step-break"; then
            holds "$step-break" 'the first that took too long ends it' '.broke_at_ns > 0 and .results[0].samples == 1 and .results[0].max_at_ns == .broke_at_ns'
            gpio_code "$step-break" err 1
        fi
        # One that comes too late counts as lost, and as strange when it comes.
        if ended "$step-lost"; then
            holds "$step-lost" 'edges that do not come are counted' '(.lost - .strange) as $lost | $lost >= 5 and $lost <= 6 and .results[2].samples == 50
                    and "\(.lost) of \(50 + .lost) edges did not come at LOOP_IN" as $said | any(.notes[]; startswith($said))'
            gpio_code "$step-lost" err 1
        fi
        if ended "$step-pulse"; then holds "$step-pulse" 'the line is named' '.pulse == "LOOP_OPEN (" + (.pulse | capture("(?<place>gpiochip[0-9]+:4)").place) + ")"'; fi
        # What it is at the end, it may have to be driven to once more.
        if ended "$step-pulses" && ! grep -qx '100' "$answers/$step-pulses.out"; then wrong "$step-pulses: the line changed $(<"$answers/$step-pulses.out") times, not 100"; fi
        if ended "$step-refused"; then
            said_in_turn "$step-refused" 'in use by "gpio-loop-itself"' 2 'cannot give interrupts' 2 'cannot be both' 2 'has no line 6: its 6 lines' 2 \
                'is called "loop_out", but LOOP_OUT' 2 'of which chip?' 2 'cannot give interrupts' 2
        fi
        for signal in INT TERM HUP; do said_all "$step-$signal" '1;status 0;1;0;input,false,,false;input,false,,false'; done
    done
    if [[ $gpio == none ]]; then
        shown 'says why there is no GPIO'
    else
        ended gpio-unload || true
        shown 'edges on wired GPIO lines, lost ones and late ones'
    fi
}

# gpio_code STEP out|err CODE: the exit code that the step said last.
gpio_code() {
    local code
    code=$(tail -n 1 -- "$answers/$1.$2")
    if [[ $code != "$3" ]]; then wrong "$1: exit code $code, not $3"; fi
}

# gpio_raw STEP: every edge was written, its parts are the whole, and a count of them is what the results and the file of counts have.
gpio_raw() {
    local counted told line
    if ! ended "$1-raw" || ! ended "$1-line"; then return 0; fi
    counted=$(awk '$3 + $4 != $5 || NF != 5 { print "torn"; exit } { counts[int($5 / 1000)]++ } END { for (us in counts) print us, counts[us] }' "$answers/$1-raw.out" |
        sort -n | paste -s -d ';')
    told=$(jq --raw-output '.results[] | select(.figure == "whole") | .microseconds[] | "\(.[0]) \(.[1])"' "$answers/$1-edges.out" | paste -s -d ';')
    line=$(tr ' ' '\n' <"$answers/$1-line.out" | awk '$1 == "(later:" { exit } NR > 1 && $1 > 0 { print NR - 2, $1 }' | paste -s -d ';')
    # What took more than ten milliseconds is counted together.
    if [[ $counted != "$told"* || $line != "$told" ]]; then wrong "$1: every edge gives $counted, the results $told, the file $line"; fi
}

# said_in_turn STEP TEXT CODE...: each of these texts, and after it that exit code.
said_in_turn() {
    local step=$1 text code line=1
    shift
    while (($# > 0)); do
        text=$(sed -n "${line}p" "$answers/$step.out") code=$(sed -n "$((line + 1))p" "$answers/$step.out")
        if [[ $text != *"$1"* || $code != "$2" ]]; then wrong "$step: said $text and $code, not $1 and $2"; fi
        line=$((line + 2))
        shift 2
    done
}

# --- cycles: the kernel module hpt_cycles opens the cycle counter, keeps it open, says what perf does to it, and closes it again ---------

# Which CPU goes offline, and which perf counts on.
CYCLES_CPU=1

guest_cycles() {
    local build state=/sys/module/hpt_cycles/parameters/state check=/sys/module/hpt_cycles/parameters/check_seconds
    local online=/sys/devices/system/cpu/cpu$CYCLES_CPU/online user_access=/proc/sys/kernel/perf_user_access
    cycles_read before
    cycles_access before
    cycles_hpt before
    # Nothing is looked at unless it is asked for, so that what perf leaves behind is seen.
    echo 'step cycles-load insmod /modules/hpt_cycles.ko check_seconds=0'
    # Its reason is in dmesg. Nothing was opened, so that there is nothing more to show.
    echo 'if [ -e /sys/module/hpt_cycles ]; then'
    cycles_read open
    for build in "${builds[@]}"; do echo "step $build.cycles-plain as plain cycles-$build read"; done
    echo "step cycles-state as plain cat $state"
    cycles_hpt open
    for build in "${builds[@]}"; do
        echo "step $build.cycles-bench as plain hpt-$build bench --calls 500 --format json --source arm-cycles"
        # What a published table compares, in short: in a row, after a pause, after a short and a long one in turn.
        echo "step $build.cycles-pairs as plain hpt-$build latency pairs --source monotonic,arm-cycles" \
            '--every 0s,20ms,10ms/50ms --count 50 --format json'
        # And its other table, as often as was published.
        echo "step $build.cycles-period as plain hpt-$build experiment period --store /tmp/kept-plain --format json"
    done
    # Where a CPU can be had offline at all.
    echo "if [ -e $online ]; then"
    echo "echo 0 >$online"
    echo "step cycles-offline cat $state"
    echo "echo 1 >$online"
    cycles_read online
    echo "step cycles-online cat $state"
    echo 'fi'
    echo 'step cycles-powered-down insmod /modules/power_down.ko'
    cycles_read woken
    build=${builds[0]}
    echo "step $build.cycles-perf cycles-$build perf $CYCLES_CPU cat $state"
    for build in "${builds[@]}"; do echo "step $build.cycles-perf-left as plain cycles-$build read"; done
    echo "step cycles-state-left cat $state"
    echo "step cycles-again sh -c 'echo 0 >$check'"
    cycles_read again
    # The other way in which perf closes it: on all CPUs.
    echo "if [ -e $user_access ]; then"
    echo "echo 0 >$user_access"
    cycles_read user-access
    echo "step cycles-user-access cat $state"
    echo 'fi'
    # By itself, this time: writing its parameter has made it look once, and what is done to the counter comes after that.
    echo "echo 1 >$check"
    build=${builds[0]}
    echo "step cycles-perf-once-more cycles-$build perf $CYCLES_CPU true"
    echo "await 1 holds $state 'open 0-$((cores - 1))'"
    cycles_read by-itself
    echo 'step cycles-unload rmmod hpt_cycles'
    cycles_read closed
    cycles_access closed
    cycles_hpt closed
    # What it found then is what it finds now: nobody else had opened it. And this time perf was first, on one CPU.
    build=${builds[0]}
    echo "step cycles-load-again cycles-$build perf $CYCLES_CPU insmod /modules/hpt_cycles.ko check_seconds=0"
    cycles_read beside-perf
    echo 'step cycles-unload-again rmmod hpt_cycles'
    cycles_read closed-again
    cycles_access closed-again
    guest_cycles_reader
    guest_cycles_kvm
    echo 'fi'
    echo "if [ -e $user_access ]; then"
    for build in "${builds[@]}"; do
        echo "step $build.cycles-register it-$build --ignored --exact" \
            'live::a_threads_cycles_are_read_by_register_where_root_lets_them --show-output'
    done
    echo 'fi'
    echo "step cycles-said sh -c 'dmesg | grep hpt_cycles:'"
}

# An hpt that reads the counter while the module is unloaded.
guest_cycles_reader() {
    local build
    for build in "${builds[@]}"; do
        echo "step $build.cycles-reader-load insmod /modules/hpt_cycles.ko check_seconds=0"
        # It reads without a pause, on the CPU that it opened the counter on, until it is ended.
        cat <<READER
step $build.cycles-reader sh -c 'hpt-$build latency pairs --source arm-cycles --every 0s --count 4000000000 --cpu any 2>/tmp/reader &
    await \$! pinned \$!
    await \$! worked \$! 1 300
    rmmod hpt_cycles
    wait \$!
    echo "status \$?"
    cat /tmp/reader'
READER
        echo "step $build.cycles-foreign sh -c 'hpt-$build latency timer --cpu any --duration 1h 2>/tmp/reader & await \$! listens \$! 4 2; kill -ILL \$!; wait \$!; echo \"status \$?\"; cat /tmp/reader'"
    done
}

# What KVM does to the register on the CPU where it has a guest: before Linux 6.4, and since, by a module in its place; and KVM itself where the kernel began in EL2.
guest_cycles_kvm() {
    local build=${builds[0]}
    if [[ -n $vcpu ]]; then guest_cycles_vcpu "$build"; fi
    echo 'if [ -e /dev/kvm ]; then'
    echo 'step cycles-kvm-load insmod /modules/hpt_cycles.ko check_seconds=0'
    echo "step $build.cycles-kvm-guest cycles-$build guest $CYCLES_CPU"
    cycles_read kvm
    echo "step cycles-kvm-state cat /sys/module/hpt_cycles/parameters/state"
    echo 'step cycles-kvm-unload rmmod hpt_cycles'
    cycles_access kvm-closed
    echo 'fi'
}

# guest_cycles_vcpu BUILD: the module in KVM's place, whose thread never rests. Where one thread of the host runs all processors it takes the time of the others.
guest_cycles_vcpu() {
    local build=$1 elsewhere=1 there=2
    local state=/sys/module/hpt_cycles/parameters/state check=/sys/module/hpt_cycles/parameters/check_seconds why=/sys/module/hpt_cycles/parameters/why
    echo 'step cycles-cleared-load insmod /modules/hpt_cycles.ko check_seconds=1'
    echo "step cycles-cleared-guest insmod /modules/vcpu.ko cpu=$CYCLES_CPU"
    echo "await 1 sh -c 'grep -qx \"taken $CYCLES_CPU\" $state'"
    # For several looks.
    echo 'sleep 3'
    echo "step cycles-cleared-state cat $state"
    echo "step cycles-cleared-why as plain cat $why"
    cycles_read cleared
    echo "step $build.cycles-hpt-cleared as plain taskset $there hpt-$build probe arm-cycles --format json"
    echo 'step cycles-cleared-end rmmod vcpu'
    # Not by itself even then. Nothing tells the module that the last guest is gone.
    echo 'sleep 3'
    echo "step cycles-cleared-ended cat $state"
    echo "step cycles-cleared-anew sh -c 'echo 0 >$check; cat $state'"
    cycles_read cleared-anew
    echo 'step cycles-cleared-unload rmmod hpt_cycles'
    cycles_access cleared-closed

    # Since Linux 6.4. Perf has the CPU first, so that the module meets the guest's value before it has opened the counter there.
    echo "step cycles-kept-load cycles-$build perf $CYCLES_CPU insmod /modules/hpt_cycles.ko check_seconds=0"
    echo "step cycles-kept-guest insmod /modules/vcpu.ko cpu=$CYCLES_CPU keeps=1"
    # A program on another CPU asks, and so interrupts the guest's thread. Asking opens nothing: the guest's value is there whenever that thread runs.
    echo "step cycles-kept-seen await 1 sh -c 'taskset $elsewhere cat $state | grep -qx \"guest $CYCLES_CPU\"'"
    # The order to open comes while the guest has the CPU, or the thread that is switched in after it carries it out. A program there sees the host's value.
    echo "step cycles-kept-open await 1 sh -c 'taskset $elsewhere sh -c \"echo 0 >$check\"; taskset $there cat $state | grep -x \"open 0-$((cores - 1))\"'"
    cycles_read kept
    cycles_access kept
    # The visit of a CPU that is open and has a guest changes nothing.
    echo "step cycles-kept-again taskset $elsewhere sh -c 'for visit in 1 2 3 4 5; do echo 0 >$check; done'"
    cycles_read kept-again
    echo 'step cycles-kept-unload rmmod hpt_cycles'
    cycles_read kept-closed
    cycles_access kept-closed
    echo 'step cycles-kept-end rmmod vcpu'
    cycles_access kept-ended
}

# cycles_access WHEN: what the register shows on each CPU that lets programs in. ARM1176 does not show it.
cycles_access() { echo "step cycles-access-$1 cycles-${builds[0]} access"; }

# cycles_read WHEN: by every program.
cycles_read() {
    local build
    for build in "${builds[@]}"; do echo "step $build.cycles-$1 cycles-$build read"; done
}

# cycles_hpt WHEN: by hpt, which is asked for this source alone: a perf event of its own would close the counter.
cycles_hpt() {
    local build
    for build in "${builds[@]}"; do echo "step $build.cycles-hpt-$1 as plain hpt-$build probe arm-cycles --format json"; done
}

judge_cycles() {
    local build when beside=SIGILL last=$((cores - 1)) rest what
    for build in "${builds[@]}"; do
        cycles_are "$build.cycles-before" SIGILL
        cycles_hpt_says before 1 'no arm-cycles, with a reason' '(.available | not) and .reason != null'
    done
    if [[ $after_perf == refused ]]; then
        if [[ ! -e $answers/cycles-load.status || $(<"$answers/cycles-load.status") == 0 ]]; then wrong 'cycles-load: hpt_cycles was not refused'; fi
        cycles_said 'no CPU has a cycle counter that this module knows and that counts'
        shown 'hpt_cycles refuses: no cycle counter'
        return
    fi
    ended cycles-load || return 0
    cycles_said "programs can read the cycle counter of CPU 0-$last"
    cycles_state cycles-state "open 0-$last"
    what="cycle counter on $cores CPUs by hpt_cycles"
    rest=$(cycles_without)
    if [[ $after_perf == none ]]; then beside=moves; fi
    for build in "${builds[@]}"; do
        for when in open plain woken again by-itself; do cycles_are "$build.cycles-$when" moves; done
        for when in closed closed-again; do cycles_are "$build.cycles-$when" SIGILL; done
        # Where perf was first, the module leaves it alone.
        cycles_are "$build.cycles-beside-perf" moves "$beside"
        for when in before closed; do
            cycles_hpt_says "$when" 1 'arm-cycles is closed, and what helps' '.reason_kind == "closed" and (.remedy | contains("hpt_cycles"))'
        done
        cycles_hpt_says open 0 'arm-cycles is there' '.available'
        if ended "$build.cycles-bench"; then
            holds "$build.cycles-bench" 'arm-cycles was read to the end' '[.results[] | select(.id == "arm-cycles").complete] == [true]'
        fi
        if ended "$build.cycles-pairs"; then
            holds "$build.cycles-pairs" 'pairs were read of both, after three kinds of pauses' \
                '[.results[] | select(.samples == 50 and .mean_ticks > 0 and .mean_ns > 0).id] == ([range(3)] | map("monotonic", "arm-cycles"))'
        fi
        if ended "$build.cycles-period"; then
            holds "$build.cycles-period" 'the error of a period was measured a thousand times by the clock and by the cycle counter, beside what was published' \
                'all(.results[]; .samples == 1000 and .published != null) and ([.results[].how] | map(startswith("monotonic") or startswith("arm-cycles (register)")) | all)
                    and ([.results[] | select((.how | startswith("arm-cycles")) and .unit == "ns")] | length == 2)
                    and ([.results[] | select((.how | startswith("arm-cycles")) and .unit != "ns")] | length == 1)'
        fi
        if [[ -n $hotplug ]]; then cycles_are "$build.cycles-online" moves; fi
        if [[ $architecture == arm64 ]]; then
            cycles_are "$build.cycles-user-access" SIGILL
            if ended "$build.cycles-register" && ! grep -q '^perf-cycles by register: own cost' -- "$answers/$build.cycles-register.out"; then
                wrong "$build.cycles-register: perf's counter was not read by register"
            fi
        fi
    done
    for when in powered-down again perf-once-more unload load-again unload-again; do ended "cycles-$when" || true; done
    if [[ -n $hotplug ]]; then
        cycles_state cycles-offline "open $rest"
        cycles_state cycles-online "open 0-$last"
        what+=', through hotplug'
    fi
    if [[ $architecture == arm64 ]]; then
        cycles_state cycles-user-access "taken 0-$last"
        what+=', by register through perf'
    fi
    judge_cycles_left
    judge_cycles_reader
    if [[ -n $vcpu ]]; then judge_cycles_vcpu; fi
    if [[ -n $kvm ]]; then judge_cycles_kvm; fi
    if grep -q 'somebody else' -- "$answers/cycles-said.out"; then wrong 'cycles: hpt_cycles did not give everything back'; fi

    build=${builds[0]}
    case $after_perf in
        none)
            cycles_perf "$build.cycles-perf" 'No such file or directory' "open 0-$last"
            for build in "${builds[@]}"; do cycles_are "$build.cycles-perf-left" moves; done
            ;;
        SIGILL) cycles_after_perf closed 'was closed, as perf does: a program that reads it there gets SIGILL' ;;
        stands) cycles_after_perf standing 'was stopped, as perf does: it can be read, and stands' ;;
    esac
    shown "$what"
}

# The register is as it was found, on each CPU, each time the module was unloaded.
judge_cycles_left() {
    local when whens=(closed closed-again)
    ended cycles-access-before || return 0
    if [[ $(grep -c '^CPU [0-9]*: access' -- "$answers/cycles-access-before.out") != "$cores" ]]; then wrong 'cycles-access-before: not every CPU shows its register'; fi
    if [[ -n $vcpu ]]; then whens+=(cleared-closed kept-closed kept-ended); fi
    if [[ -n $kvm ]]; then whens+=(kvm-closed); fi
    for when in "${whens[@]}"; do
        ended "cycles-access-$when" || continue
        if ! cmp -s -- "$answers/cycles-access-before.out" "$answers/cycles-access-$when.out"; then
            wrong "cycles-access-$when: hpt_cycles left $(paste -s -d ';' "$answers/cycles-access-$when.out"), and found $(paste -s -d ';' "$answers/cycles-access-before.out")"
        fi
    done
}

# An hpt whose counter is closed says so, and ends as it would without; one that another process ends does not blame the counter.
judge_cycles_reader() {
    local build step
    for build in "${builds[@]}"; do
        ended "$build.cycles-reader-load" || true
        for step in reader foreign; do
            ended "$build.cycles-$step" || continue
            if ! grep -qx 'status 132' -- "$answers/$build.cycles-$step.out"; then wrong "$build.cycles-$step: SIGILL did not end it: $(paste -s -d ';' "$answers/$build.cycles-$step.out")"; fi
        done
        if ! grep -q '^hpt: the cycle counter was closed while hpt read it' -- "$answers/$build.cycles-reader.out"; then
            wrong "$build.cycles-reader: it ended without a word"
        fi
        if grep -q 'cycle counter' -- "$answers/$build.cycles-foreign.out"; then wrong "$build.cycles-foreign: it blames the cycle counter for a signal that was sent"; fi
    done
}

# Beside KVM no reader is ended without a word.
judge_cycles_vcpu() {
    local build step closed='closed by KVM after a guest, or by kernel.perf_user_access'
    for step in load guest end anew unload; do ended "cycles-cleared-$step" || true; done
    for step in load guest seen open again unload end; do ended "cycles-kept-$step" || true; done
    # Where KVM clears it, the counter stays closed, and everybody is told why.
    cycles_state cycles-cleared-state "open $rest;taken $CYCLES_CPU"
    cycles_state cycles-cleared-ended "open $rest;taken $CYCLES_CPU"
    cycles_state cycles-cleared-anew "open 0-$last"
    if ended cycles-cleared-why && ! grep -q "^CPU $CYCLES_CPU: $closed" -- "$answers/cycles-cleared-why.out"; then
        wrong "cycles-cleared-why: hpt_cycles does not say why: $(<"$answers/cycles-cleared-why.out")"
    fi
    cycles_said "CPU$CYCLES_CPU: $closed"
    # Where KVM keeps it, the module leaves the CPU alone while a guest has it.
    cycles_said "CPU$CYCLES_CPU: a guest of KVM has the CPU"
    for build in "${builds[@]}"; do
        cycles_are "$build.cycles-cleared" moves SIGILL
        for step in cleared-anew kept kept-again; do cycles_are "$build.cycles-$step" moves; done
        cycles_are "$build.cycles-kept-closed" SIGILL
    done
    build=${builds[0]}
    cycles_hpt_says cleared 1 'KVM closed arm-cycles, and what helps' '.reason_kind == "closed" and (.remedy | contains("KVM"))'
    what+=', beside what KVM does'
}

# And beside a guest of it.
judge_cycles_kvm() {
    local build=${builds[0]} step
    for step in load unload; do ended "cycles-kvm-$step" || true; done
    if ended "$build.cycles-kvm-guest" && ! grep -qx 'guest: ran' -- "$answers/$build.cycles-kvm-guest.out"; then
        wrong "$build.cycles-kvm-guest: $(<"$answers/$build.cycles-kvm-guest.out")"
    fi
    # This kernel restores the value after a guest.
    for build in "${builds[@]}"; do cycles_are "$build.cycles-kvm" moves; done
    cycles_state cycles-kvm-state "open 0-$last"
    what+=', with a guest of KVM'
}

# cycles_after_perf STATE TEXT: what the module calls the CPU that perf counted on, and what it says of the counter there. It is also to be told of perf
# while that counts, and that the counter is open again.
cycles_after_perf() {
    local build=${builds[0]}
    cycles_perf "$build.cycles-perf" counted "open $rest;perf $CYCLES_CPU"
    if ended cycles-load-again && ! grep -qxF 'perf: counted' -- "$answers/cycles-load-again.out"; then wrong 'cycles: perf did not count when it was first'; fi
    for build in "${builds[@]}"; do cycles_are "$build.cycles-perf-left" moves "$after_perf"; done
    cycles_state cycles-state-left "open $rest;$1 $CYCLES_CPU"
    cycles_said "CPU$CYCLES_CPU: perf is counting there"
    cycles_said "CPU$CYCLES_CPU: the cycle counter $2"
    cycles_said "CPU$CYCLES_CPU: programs can read the cycle counter"
    cycles_said "programs can read the cycle counter of CPU $rest"
    what+=", $1 after perf"
}

# cycles_perf STEP WORDS LINES: what came of counting by perf, and what the module said meanwhile.
cycles_perf() {
    ended "$1" || return 0
    if ! grep -qxF "perf: $2" -- "$answers/$1.out"; then wrong "$1: not $2: $(grep '^perf: ' -- "$answers/$1.out")"; fi
    cycles_state "$1" "$3"
}

# cycles_hpt_says WHEN STATUS WHAT FILTER: of the source, by the program of $build, which ends with 1 where it cannot be used.
cycles_hpt_says() {
    local step=$build.cycles-hpt-$1 status=none
    if [[ -e $answers/$step.status ]]; then status=$(<"$answers/$step.status"); fi
    if [[ $status != "$2" ]]; then
        wrong "$step: exit code $status, not $2"
    else
        holds "$step" "$3" "source(\"arm-cycles\") | $4"
    fi
}

# cycles_without: all CPUs but the one that something is done to, as the kernel lists them. There are two or four.
cycles_without() { if ((cores == 2)); then echo 0; else echo "0,2-$((cores - 1))"; fi; }

# cycles_are STEP WORD [OTHER]: what the program met on each CPU; OTHER on the one that something was done to.
cycles_are() {
    local cpu word wanted=()
    ended "$1" || return 0
    for ((cpu = 0; cpu < cores; cpu++)); do
        word=$2
        if ((cpu == CYCLES_CPU)); then word=${3:-$2}; fi
        wanted+=("CPU $cpu: $word")
    done
    if [[ $(sed 's/,.*//' "$answers/$1.out") != "$(printf '%s\n' "${wanted[@]}")" ]]; then
        wrong "$1: should be $2${3:+, and $3 on CPU $CYCLES_CPU}: $(paste -s -d ';' "$answers/$1.out")"
    fi
}

# cycles_state STEP LINES: what the module says; with ; between the lines.
cycles_state() {
    local said
    ended "$1" || return 0
    said=$(grep -v '^perf: ' -- "$answers/$1.out" | paste -s -d ';')
    if [[ $said != "$2" ]]; then wrong "$1: hpt_cycles says $said, not $2"; fi
}

# cycles_said TEXT: in the kernel's log.
cycles_said() {
    ended cycles-said || return 0
    if ! grep -qF -- "hpt_cycles: $1" "$answers/cycles-said.out"; then wrong "hpt_cycles did not say: $1"; fi
}

# --- hotplug: CPUs that are taken offline and online again under a measurement -------------------------------------------

# The last CPU is the one that hpt is pinned to, or one of them.

guest_hotplug() {
    local build
    cat <<'GUEST'
cat >/tmp/cpu <<'CPU'
#!/bin/sh
# cpu N 0|1: takes it offline, or online.
echo $2 >/sys/devices/system/cpu/cpu$1/online
CPU
cat >/tmp/interval <<'INTERVAL'
#!/bin/sh
# interval N TEXT...: the watch has told of more than N intervals, and of the last one these.
[ "$(wc -l </tmp/hotplug-watched)" -gt $1 ] || exit 1
shift
for text in "$@"; do tail -n 1 /tmp/hotplug-watched | grep -q "$text" || exit 1; done
INTERVAL
cat >/tmp/own <<'OWN'
#!/bin/sh
# own TASK CPU: the thread may run on that CPU alone. `any` is more than one.
list=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' $1/status)
case $2$list in any*[-,]*) exit 0 ;; any*) exit 1 ;; esac
[ "$list" = $2 ]
OWN
cat >/tmp/ticks <<'TICKS'
#!/bin/sh
# ticks TASK [N]: hundredths of a second of CPU time that the thread has had; or whether it has had so many.
had=$(sed 's/.*) //' $1/stat | awk '{ print $12 + $13 }')
[ -n "$2" ] || { echo $had; exit; }
[ $had -ge $2 ]
TICKS
cat >/tmp/hotplug-watch <<'WATCH'
#!/bin/sh
# A watch on CPU 3, while CPU 3, CPU 0 and CPU 1 go and come, one after the other.
: >/tmp/hotplug-watched
hpt-$1 watch --cpu 3 --limit-step 100us --duration 1d --format json >/tmp/hotplug-watched &
watched=$!
# later TEXT...: an interval that began after this one says so.
later() { await $watched /tmp/interval $(($(wc -l </tmp/hotplug-watched) + 1)) "$@"; }
later '"rounds_elsewhere":0,' '"first_cpu":0,'
/tmp/cpu 3 0
later '"rounds_elsewhere":[1-9]'
/tmp/cpu 3 1
later '"rounds_elsewhere":0,'
/tmp/own /proc/$watched 3 && echo 'pinned again' >&2
/tmp/cpu 0 0
later '"first_cpu":1,"second_cpu":2,' '"first_cpu":1,"second_cpu":3,'
/tmp/cpu 0 1
later '"first_cpu":0,"second_cpu":1,'
/tmp/cpu 1 0
later '"first_cpu":0,"second_cpu":2,'
/tmp/cpu 1 1
later '"first_cpu":0,"second_cpu":1,'
kill -TERM $watched
wait $watched
status=$?
cat /tmp/hotplug-watched
exit $status
WATCH
cat >/tmp/hotplug-latency <<'LATENCY'
#!/bin/sh
# hotplug-latency BUILD WHAT CPUS: CPU 3 goes and comes while threads measure there and on others.
hpt-$1 latency $2 --cpu $3 --duration 1d --format json >/tmp/hotplug-measured &
measuring=$!
of_cpu_3() { for task in /proc/$measuring/task/*; do ! /tmp/own $task 3 || echo $task; done; }
await $measuring sh -c "for task in /proc/$measuring/task/*; do ! /tmp/own \$task 3 || exit 0; done; exit 1"
task=$(of_cpu_3)
# works: the thread has measured for a while from now on.
works() { await $measuring /tmp/ticks $task $(($(/tmp/ticks $task) + 20)); }
works
/tmp/cpu 3 0
await $measuring /tmp/own $task any
works
/tmp/cpu 3 1
await $measuring /tmp/own $task 3
/tmp/own $task 3 && echo 'pinned again' >&2
works
kill -TERM $measuring
wait $measuring
status=$?
cat /tmp/hotplug-measured
exit $status
LATENCY
chmod 755 /tmp/cpu /tmp/interval /tmp/own /tmp/ticks /tmp/hotplug-watch /tmp/hotplug-latency
GUEST
    for build in "${builds[@]}"; do
        echo "step $build.hotplug-watch /tmp/hotplug-watch $build"
        echo "step $build.hotplug-timer /tmp/hotplug-latency $build timer all"
        echo "step $build.hotplug-poll /tmp/hotplug-latency $build poll 2,3"
        echo "step $build.hotplug-stall /tmp/hotplug-latency $build stall 2,3"
    done
}

judge_hotplug() {
    local build step what away
    away='(.away | length == 1) and (.away[0] | .cpu == 3 and .offline and .from_s < .to_s and .samples > 0 and (.ran_on | length > 0 and all(. != 3)))
        and ([.notes[] | select(startswith("CPU 3 was offline from "))] | length >= 1)'
    for build in "${builds[@]}"; do
        step=$build.hotplug-watch
        if ended "$step"; then
            watched "$step" 'nobody is accused' '.misbehaved | not'
            watched "$step" 'that and when it was not on its CPU' "$away"
            watched "$step" 'each CPU that was offline, and when' \
                '[.offline[].cpu] == [3, 0, 1] and all(.offline[]; .from_s < .to_s) and ([.events[].kind] == [range(3) | "cpu-offline", "cpu-online"])'
            watched "$step" 'without CPU 0 the others were compared' '[.cores[] | select(.first_cpu == 1 and .fault == null).second_cpu] | contains([2, 3])'
            watched "$step" 'with CPU 0 all were compared' '[.cores[] | select(.first_cpu == 0).second_cpu] | sort == [1, 2, 3]'
            watched "$step" 'that CPU 1 was offline, and no error for it' \
                'any(.notes[]; startswith("CPU 1 was offline from ")) and all(.notes[]; contains("could not be compared") | not)'
        fi
        for what in timer poll stall; do
            step=$build.hotplug-$what
            ended "$step" || continue
            holds "$step" 'that and when a thread was not on its CPU' "$away"
            if [[ $what == timer ]]; then
                holds "$step" 'all four CPUs, and fewer deadlines of the one that was offline' \
                    '([.results[].cpu] == [0, 1, 2, 3]) and (.results[3].samples > 0) and ([.results[2:][] | .samples + .missed] | .[1] < .[0])'
            fi
            if [[ $what == stall ]]; then
                holds "$step" 'the time elsewhere is none of the CPU' \
                    '[.results[] | select(.elsewhere_ns > 0) | .cpu] == [3] and (.results | map(.elapsed_ns) | .[1] < .[0])'
            fi
        done
        for what in watch timer poll stall; do
            if ! grep -qxF 'pinned again' -- "$answers/$build.hotplug-$what.err"; then wrong "$build.hotplug-$what: not pinned again"; fi
        done
        shown 'CPUs taken off and on'
    done
}
