# The capture replay of `scripts/demo --replay`; sourced by it. CAPTURE is one of tests/captures.

# row FIELD: of what the captures' README says of peer 0: 1 the number of packets, 2 their SHA-256.
row() {
    sed -n "s/^| $CAPTURE |.*| 0: \([0-9]*\), \([0-9a-f]\{64\}\) |.*/\\$1/p" "$ROOT/tests/captures/README.md"
}

listen() {
    cat >"$WORK/listen.py" <<'PYTHON'
"""Counts and digests the inner packets of the frames that are from a peer, on all interfaces, until SIGTERM or enough."""
import hashlib, socket, sys, time

wanted, seconds = int(sys.argv[1]), float(sys.argv[2])
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))  # ETH_P_ALL, bound to no interface
SO_RCVBUFFORCE = 33
wire.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 256 << 20)
wire.settimeout(0.5)
print("listening", flush=True)
digest, packets, end = hashlib.sha256(), 0, time.monotonic() + seconds
while time.monotonic() < end:
    try:
        frame = wire.recv(65536)
    except socket.timeout:
        if packets >= wanted:
            break
        continue
    if frame[6:9] == b"\x02\x6f\x76":
        packets += 1
        digest.update((len(frame) - 14).to_bytes(4, "big") + frame[14:])
print(packets, digest.hexdigest(), flush=True)
PYTHON
    ip netns exec "$NS" python3 "$WORK/listen.py" "$1" 60 >"$WORK/heard" 2>"$WORK/listen.log" &
    listener=$!
    children+=("$listener")
    local i
    for i in $(seq 100); do
        if grep -q '^listening$' "$WORK/heard"; then return; fi
        sleep 0.1
    done
    fail 'the listener does not start' "$WORK/listen.log"
}

configure() {
    install -m 600 "tests/captures/$CAPTURE.keys.json" "$WORK/keys.json"
    # A path of a checkout may hold what has a meaning in device arguments.
    cp "tests/captures/$CAPTURE.outer.pcap" "$WORK/outer.pcap"
    cat >"$WORK/gw.toml" <<TOML
name = "$NS"
eal = ["--vdev=net_pcap0,rx_pcap=$WORK/outer.pcap,tx_pcap=$WORK/sent.pcap"]
insecure_static_keys = true     # keys of a capture, for this demonstration only
state_file = "$WORK/capture.ids"
[nic]
port = "net_pcap0"
[host]
kind = "tap"
interface = "wan0"
[[tunnel]]
interface = "ovpn0"
kind = "tap"
source_check = false            # a keys file holds no VPN addresses
keys_file = "keys.json"
TOML
}

# The interfaces are up before the worker takes the first frame, and the listener hears interfaces that come later.
play() {
    say "playing tests/captures/$CAPTURE.outer.pcap through the gateway into a TAP"
    # Its own neighbour discovery is not of interest.
    ip netns exec "$NS" sysctl -q -w net.ipv6.conf.default.disable_ipv6=1
    ip netns exec "$NS" "$PROGRAM" run --config "$WORK/gw.toml" --stats-period 1 --exit-after-idle 2 2>"$WORK/run.log" &
    children+=($!)
    wait $! || fail "the gateway ended with status $?" "$WORK/run.log"
    wait "$listener" || fail 'the listener failed' "$WORK/listen.log"
    children=()
}

# Fresh keys for both ends: what one encrypts with, the other decrypts with.
make_keys() {
    python3 - "$WORK" <<'PYTHON'
import json, os, secrets, sys

def half():
    return {"key": secrets.token_hex(16), "nonce_tail": secrets.token_hex(8)}

os.umask(0o077)
there, back = half(), half()
for side, encrypt, decrypt in ("left", there, back), ("right", back, there):
    key = {"peer_id": 0, "key_id": 0, "cipher": "AES-128-GCM", "encrypt": encrypt, "decrypt": decrypt}
    with open(f"{sys.argv[1]}/{side}.keys.json", "w") as file:
        json.dump({"keys": [key]}, file)
PYTHON
}

# gateway SIDE CPU OWN OTHER: a gateway on its end of the veth pair, with the outer address 192.0.2.OWN and the VPN address
# 10.8.0.OWN; waits until it is ready.
gateway() {
    local side=$1 cpu=$2 own=$3 other=$4 in="$NS-$1" i
    cat >"$WORK/$side.toml" <<TOML
name = "$in"
eal = ["--vdev=net_af_packet0,iface=nic0,framecnt=4096"]
lcores = "$cpu"
idle_sleep_us = 50
insecure_static_keys = true     # for this demonstration only
state_file = "$WORK/$side.ids"
[nic]
port = "net_af_packet0"
[host]
kind = "tap"
interface = "wan0"
[[tunnel]]
interface = "ovpn0"
kind = "tap"
listen = ["192.0.2.$own:1194"]
keys_file = "$side.keys.json"
[[tunnel.peer]]
id = 0
remote = "192.0.2.$other:1194"
addresses = ["10.8.0.$other"]
keepalive = [10, 60]
TOML
    ip netns exec "$in" "$PROGRAM" run --config "$WORK/$side.toml" >"$WORK/$side.out" 2>"$WORK/$side.log" &
    children+=($!)
    for i in $(seq 200); do
        if grep -q '^ready$' "$WORK/$side.out"; then break; fi
        kill -0 "${children[-1]}" 2>/dev/null || fail "the gateway on the $side ended" "$WORK/$side.log"
        sleep 0.1
    done
    ip -n "$in" addr add "192.0.2.$own/24" dev wan0
    ip -n "$in" addr add "10.8.0.$own/24" dev ovpn0
}

two_way() {
    local side
    make_keys
    for side in left right; do
        ip netns add "$NS-$side"
        ip -n "$NS-$side" link set lo up
    done
    ip -n "$NS-left" link add nic0 type veth peer name nic0 netns "$NS-right"
    for side in left right; do
        # Super-frames would arrive cut at a port that reads the interface.
        ip netns exec "$NS-$side" ethtool -K nic0 tso off gso off >/dev/null
        ip -n "$NS-$side" link set nic0 up
    done
    gateway left 0 1 2
    gateway right "$(($(nproc) > 1))" 2 1
    # The first packets wait for nobody: until the other side's MAC address is known, there is no way there.
    ip netns exec "$NS-left" ping -c 20 -i 0.1 -W 1 -q 10.8.0.2 >/dev/null || true
    say 'two gateways carry a tunnel: ping'
    ip netns exec "$NS-left" ping -c 3 -i 0.2 -W 5 10.8.0.2 | sed 's/^/    /' || fail 'no answer through the tunnel' "$WORK/left.log" "$WORK/right.log"
    ip netns exec "$NS-right" iperf3 -s -1 >"$WORK/iperf.log" 2>&1 &
    children+=($!)
    sleep 0.5
    say 'and TCP, both ways at once, for three seconds'
    ip netns exec "$NS-left" iperf3 -c 10.8.0.2 -t 3 --bidir -f m >"$WORK/tcp" 2>&1 || fail 'TCP does not get through the tunnel' "$WORK/tcp" "$WORK/left.log"
    grep -E 'receiver' "$WORK/tcp" | sed 's/^/    /'
    for pid in "${children[@]}"; do kill "$pid" 2>/dev/null || true; done
    for pid in "${children[@]}"; do wait "$pid" 2>/dev/null || true; done
    children=()
}

replay_demo() {
    local want heard direction
    want="$(row 1) $(row 2)"
    [ ${#want} -gt 64 ] || die "tests/captures/README.md does not say what $CAPTURE delivers"
    build
    ip netns add "$NS"
    ip -n "$NS" link set lo up
    configure
    listen "$(row 1)"
    play
    heard=$(tail -n 1 "$WORK/heard")
    [ "$heard" = "$want" ] ||
        fail "the TAP gave '$heard' (packets, SHA-256), a correct server delivers '$want'" "$WORK/run.log"
    say "the TAP gave $(row 1) packets, the very ones that a correct server delivers"

    two_way

    say 'measuring both paths, 1400-byte packets, 8 MB of buffers'
    for direction in in out; do
        "$PROGRAM" perf --direction "$direction" --size 1400 --pool 8 2>"$WORK/perf.log" ||
            fail "perf ended with status $?" "$WORK/perf.log"
    done

    echo "demo: ok $CAPTURE: $(row 1) packets came out of the TAP byte for byte (SHA-256 $(row 2)), and a tunnel between two gateways works"
}
