# Builds all test executables once and runs them several at a time. Sourced by scripts/test, which sets CHOSEN, LOGS, LONG and, for
# each part, log, step_failed and broken.

# Seconds after which a test executable hangs; with --long there are soaks among them.
BOUND=$([ -n "$LONG" ] && echo 3600 || echo 900)

# What takes long, the longest first: it starts first, so that no CPU waits for one file in the end. The others with OpenVPN's
# daemon come after the first of these, all else after the last.
LONGEST=(netns_daemon_life netns_daemon netns_pair_fragments release_disassembly netns_pair_vlan netns_pair_keys netns_pair_mss
    netns_pair_ping netns_pair_routes netns_pair_next_hop netns_pair_traffic netns_pair_clients netns_pair_host netns_pair_outage
    netns_run_keepalive netns_run_flat netns_pair_float_load netns_pair_float netns_control_replay eal_replay_matrix)

# Which bear no company, and why, by crate and name. They run one after the other once the pool is empty.
declare -A ALONE=(
    [ovpn-dco-preload.lock]='asserts that a thread has the kernel answer within half a second'
)

# build_executables: one cargo call for all crates, since fewer crates have fewer features and would be built again.
# $LOGS/executables gets a line for each, in the order in which they are to start: crate, name, folder of the crate, file.
build_executables() {
    local status=0
    cargo test --locked --workspace --all-features --no-run --no-fail-fast \
        --message-format=json-render-diagnostics >"$LOGS/messages" || status=$?
    python3 - "$LOGS/messages" "${LONGEST[@]}" >"$LOGS/executables" <<'PYTHON' || status=$?
import json, os, sys

longest, found = sys.argv[2:], []
for line in open(sys.argv[1]):
    message = json.loads(line)
    if message["reason"] == "compiler-artifact" and message["profile"]["test"] and message["executable"]:
        folder, name = os.path.dirname(message["manifest_path"]), message["target"]["name"]
        crate = message["package_id"].rpartition("#")[2].partition("@")[0]
        if not crate[0].isalpha():
            crate = os.path.basename(folder)
        named = [i for i, start in enumerate(longest) if name == start or name.startswith(start + "_")]
        rank = named[0] if named else len(longest)
        found.append((rank, f"{crate}\t{name}\t{folder}\t{message['executable']}"))
print(*(line for _, line in sorted(found)), sep="\n")
PYTHON
    rm -f "$LOGS/messages"
    return $status
}

# part_of CRATE NAME: the part that a test executable belongs to. The one that builds for release fills the time in which those
# in namespaces wait for packets, if these run too.
part_of() {
    case "$1:$2" in
        *:netns_*) echo netns ;;
        *:release_disassembly) [[ " ${CHOSEN[*]} " == *' netns '* ]] && echo netns || echo unit ;;
        lcore:* | *:eal_*) echo eal ;;
        *) echo unit ;;
    esac
}

declare -A running=()   # by process id: the name
declare -A began=()     # by name: at which second

# Each is the leader of a process group of its own (by timeout), which a signal from the terminal does not reach.
end_pool() {
    trap - EXIT INT TERM
    if [ ${#running[@]} -gt 0 ]; then
        kill "${!running[@]}" 2>/dev/null || true
        wait || true
    fi
    exit "$1"
}
trap 'end_pool 130' INT
trap 'end_pool 143' TERM

# start CRATE NAME FOLDER FILE ARGUMENT...
start() {
    local name=$1.$2 folder=$3 nice=0
    [ "$2" != release_disassembly ] || nice=10
    began[$name]=$SECONDS
    (
        cd "$folder"
        export CARGO_MANIFEST_DIR=$folder
        # A bash in between, so that what a signal kills ends with a status, and the log says it.
        # shellcheck disable=SC2016
        exec timeout --kill-after=10 "$BOUND" nice -n "$nice" bash -c '"$@"; exit $?' - "${@:4}"
    ) >"$logs/$name" 2>&1 </dev/null &
    running[$!]=$name
}

# finish: waits until one of those that run has ended. One that fails without saying which test did counts as one failure.
finish() {
    local ended='' status=0 name said took
    wait -n -p ended "${!running[@]}" 2>/dev/null || status=$?
    if [ -z "${ended:-}" ]; then
        # Bash takes a job that a signal killed off its list by itself: the ones left were of that kind.
        for ended in "${!running[@]}"; do break; done
        wait "$ended" 2>/dev/null || status=$?
    fi
    name=${running[$ended]}
    unset "running[$ended]"
    took=$((SECONDS - began[$name]))
    said=$(sum failed "$logs/$name")
    if [ $status -ne 0 ] || [ "$said" -gt 0 ]; then
        broken+=("$name")
        if [ "$said" -eq 0 ]; then
            step_failed=$((step_failed + 1))
            if [ $took -ge "$BOUND" ]; then printf '\nerror: %s was killed after %d s\n' "$name" "$took" >>"$logs/$name"; fi
            printf '\nerror: %s ended with status %d\n' "$name" "$status" >>"$logs/$name"
        fi
    fi
    { printf '== %s (status %d, %d s)\n' "$name" "$status" "$took" && cat "$logs/$name"; } >>"$log"
}

# pool PART WIDTH ARGUMENT...: runs the part's executables with these arguments, so many at a time.
pool() {
    local part=$1 width=$2 logs=$LOGS/$1 crate name folder file alone=() i
    shift 2
    local arguments=("$@")
    if [ -n "$LONG" ]; then arguments+=(--include-ignored); fi
    rm -rf "$logs"
    mkdir -p "$logs"
    while IFS=$'\t' read -r crate name folder file; do
        [ "$(part_of "$crate" "$name")" = "$part" ] || continue
        if [ -n "${ALONE[$crate.$name]:-}" ]; then
            alone+=("$crate" "$name" "$folder" "$file")
            continue
        fi
        while [ ${#running[@]} -ge "$width" ]; do finish; done
        start "$crate" "$name" "$folder" "$file" "${arguments[@]}"
    done <"$LOGS/executables"
    while [ ${#running[@]} -gt 0 ]; do finish; done
    for ((i = 0; i < ${#alone[@]}; i += 4)); do
        start "${alone[@]:i:4}" "${arguments[@]}"
        finish
    done
}
