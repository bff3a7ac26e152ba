# Stock OpenVPN daemons with their data channel in ovpn-dpdk, and with their own; sourced by scripts/demo.

# Seconds from one key negotiation to the next.
RENEG=20

# Certificates of a server and a client, by an authority of their own.
make_certificates() {
    local pki="$WORK/pki" name usage
    mkdir -m 700 "$pki"
    {
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=authority \
            -keyout "$pki/ca.key" -out "$pki/ca.crt"
        for name in server client; do
            openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=$name" \
                -keyout "$pki/$name.key" -out "$pki/$name.csr"
            usage="keyUsage=digitalSignature,keyAgreement\nextendedKeyUsage=${name}Auth\n"
            openssl x509 -req -in "$pki/$name.csr" -CA "$pki/ca.crt" -CAkey "$pki/ca.key" -CAcreateserial -days 1 \
                -extfile <(printf '%b' "$usage") -out "$pki/$name.crt"
        done
    } >"$WORK/openssl.log" 2>&1 || fail 'no certificates' "$WORK/openssl.log"
}

# both WHAT...: a command in each namespace.
both() {
    ip netns exec "$NS-server" "$@"
    ip netns exec "$NS-client" "$@"
}

# machines NAME: two namespaces and a veth pair between them, the server's end of it called NAME.
machines() {
    local side
    for side in server client; do ip netns add "$NS-$side"; done
    both ip link set lo up
    both sysctl -q -w net.ipv6.conf.default.disable_ipv6=1
    ip -n "$NS-server" link add "$1" type veth peer name host0 netns "$NS-client"
    # Super-frames would arrive cut at a port that reads the interface.
    ip netns exec "$NS-server" ethtool -K "$1" tso off gso off >/dev/null
    ip netns exec "$NS-client" ethtool -K host0 tso off gso off >/dev/null
    ip -n "$NS-server" link set "$1" up
    ip -n "$NS-client" link set host0 up
    ip -n "$NS-client" addr add 192.0.2.2/24 dev host0
}

# await SECONDS PID TEXT COUNT FILE: until FILE has COUNT lines with TEXT; status 1 when time is up or the process has ended.
await() {
    local i
    for ((i = 0; i < $1 * 10; i++)); do
        # What has just been started may not have made the file.
        if [ -e "$5" ] && [ "$(grep -c -- "$3" "$5" || true)" -ge "$4" ]; then return; fi
        kill -0 "$2" 2>/dev/null || return 1
        sleep 0.1
    done
    return 1
}

# The gateway on the server's machine, the veth as its NIC.
start_gateway() {
    cat >"$WORK/gw.toml" <<TOML
name = "$NS"
eal = ["--vdev=net_af_packet0,iface=nic0,framecnt=4096"]
lcores = "$(($(nproc) - 1))"
idle_sleep_us = 50
[nic]
port = "net_af_packet0"
[host]
kind = "tap"
interface = "host0"
[[tunnel]]
interface = "ovpn0"
kind = "tap"
[control]
socket = "$WORK/gw.sock"
[metrics]
listen = ""
TOML
    ip netns exec "$NS-server" "$PROGRAM" run --config "$WORK/gw.toml" >"$WORK/gateway.out" 2>"$WORK/gateway.log" &
    children+=($!)
    await 20 $! '^ready$' 1 "$WORK/gateway.out" || fail 'the gateway does not get ready' "$WORK/gateway.log"
}

# daemon SIDE VARIABLE...: openvpn with the configuration of that side, and with these variables in its environment; waits until
# it says that it is there. Its log is SIDE.log, its number in `daemon_pid`.
daemon() {
    local side=$1
    shift
    ip netns exec "$NS-$side" env "$@" openvpn --config "$WORK/$side.conf" >"$WORK/$side.log" 2>&1 &
    daemon_pid=$!
    children+=("$daemon_pid")
    await 20 "$daemon_pid" 'Initialization Sequence Completed' 1 "$WORK/$side.log" ||
        fail "the $side does not come up" "$WORK/gateway.log" "$WORK/server.log" "$WORK/client.log"
}

# options SIDE LINE...: the configuration of that side.
options() {
    local side=$1 line
    shift
    {
        printf 'dev ovpn0\ndev-type tun\nproto udp4\nverb 3\nca %s/ca.crt\n' "$WORK/pki"
        printf 'cert %s/%s.crt\nkey %s/%s.key\n' "$WORK/pki" "$side" "$WORK/pki" "$side"
        for line in "$@"; do printf '%s\n' "$line"; done
    } >"$WORK/$side.conf"
}

# start PATH: the machines and both daemons; PATH is offload (the server's data channel in ovpn-dpdk) or own.
start() {
    local server=('server 10.8.0.0 255.255.255.0' 'topology subnet' 'port 1194' 'dh none' 'keepalive 1 10' 'reneg-sec 0')
    rm -f "$WORK"/*.log
    case $1 in
        offload)
            machines nic0
            start_gateway
            ip -n "$NS-server" addr add 192.0.2.1/24 dev host0
            options server "${server[@]}"
            daemon server LD_PRELOAD="$PRELOAD" OVPN_DCO_SOCKET="$WORK/gw.sock"
            grep -q 'DCO device ovpn0 opened' "$WORK/server.log" || fail 'the server has its own data path' "$WORK/server.log"
            ;;
        own)
            machines host0
            ip -n "$NS-server" addr add 192.0.2.1/24 dev host0
            options server "${server[@]}" disable-dco
            daemon server
            ;;
    esac
    grep -hE 'DCO device|TUN/TAP device' "$WORK/server.log" | sed 's/^/    server: /'
    options client client nobind 'remote 192.0.2.1 1194' 'remote-cert-tls server' disable-dco "reneg-sec $RENEG"
    daemon client
    client=$daemon_pid
    grep -hE 'TUN/TAP device|Peer Connection Initiated' "$WORK/client.log" | sed 's/^/    client: /'
}

# ping_tunnel NAME ARGUMENT...: pings the server through the tunnel from the client; the output goes to the file NAME.
ping_tunnel() {
    ip netns exec "$NS-client" ping -W 5 "${@:2}" 10.8.0.1 >"$WORK/$1" 2>&1
}

# throughput NAME ARGUMENT...: Mbit/s that an iperf3 run from the client brought through the tunnel, in `rate`; what iperf3 said
# goes to the file NAME.
throughput() {
    local name=$1 server
    ip netns exec "$NS-server" iperf3 -s -1 --forceflush >"$WORK/iperf.log" 2>&1 &
    server=$!
    children+=("$server")
    await 10 "$server" 'Server listening' 1 "$WORK/iperf.log" || fail 'iperf3 does not start' "$WORK/iperf.log"
    # Waited for, since a signal is taken only then.
    ip netns exec "$NS-client" iperf3 -c 10.8.0.1 -t "$SECONDS_EACH" -J "${@:2}" >"$WORK/$name" 2>&1 &
    children+=($!)
    wait $! || fail 'TCP does not get through the tunnel' "$WORK/$name" "$WORK/server.log" "$WORK/client.log"
    wait "$server" || true
    rate=$(python3 -c 'import json, sys; print(round(json.load(sys.stdin)["end"]["sum_received"]["bits_per_second"] / 1e6))' \
        <"$WORK/$name")
    [ "$rate" -gt 0 ] || fail 'TCP brought nothing through the tunnel' "$WORK/$name"
}

# renegotiate PATH: the next renegotiation, while pings go through; how many of them in `pings`, by path. With offload none may be
# lost.
renegotiate() {
    local path=$1 side before pinging lost negotiated='Control Channel: TLS'
    before=$(grep -c "$negotiated" "$WORK/client.log")
    ip netns exec "$NS-client" ping -W 5 -i 0.02 10.8.0.1 >"$WORK/ping.reneg" 2>&1 &
    pinging=$!
    children+=("$pinging")
    for side in client server; do
        await $((RENEG + 10)) "$client" "$negotiated" $((before + 1)) "$WORK/$side.log" ||
            fail 'no renegotiation' "$WORK/server.log" "$WORK/client.log"
    done
    # What was sent with the new key comes back too.
    sleep 1
    kill -INT "$pinging"
    wait "$pinging" || true
    grep -hE 'soft reset' "$WORK/client.log" | tail -n 1 | sed 's/^/    client: /'
    for side in client server; do
        grep -h "$negotiated" "$WORK/$side.log" | tail -n 1 | sed "s/^/    $side: /"
    done
    # The last one may have been under way when ping was told to end.
    read -r lost pings[$path] < <(awk '
        match($0, /icmp_seq=[0-9]+/) && !/DUP/ { n++; seq = substr($0, RSTART + 9, RLENGTH - 9) + 0; if (seq > last) last = seq }
        /packets transmitted/ { sent = $1 }
        END { if (sent > last + 1) last = sent; print last - n, last }' "$WORK/ping.reneg")
    printf '    ping:   %d of %d lost\n' "$lost" "${pings[$path]}"
    if [ "$path" = offload ] && [ "$lost" -ne 0 ]; then
        fail 'pings were lost while keys were renegotiated' "$WORK/ping.reneg" "$WORK/gateway.log"
    fi
}

# What the gateway says of itself; it has to be healthy, and to have seen what iperf3 sent.
show_status() {
    "$PROGRAM" status --socket "$WORK/gw.sock" >"$WORK/status" || fail "ovpn-dpdk status: $?" "$WORK/status" "$WORK/gateway.log"
    sed 's/^/    /' "$WORK/status"
    "$PROGRAM" status --json --socket "$WORK/gw.sock" >"$WORK/status.json"
    python3 - "$WORK" <<'PYTHON' || fail 'the gateway has not carried what iperf3 sent' "$WORK/status.json"
import json, sys

def load(name):
    with open(f"{sys.argv[1]}/{name}") as file:
        return json.load(file)

[peer] = load("status.json")["tunnels"][0]["peers"]
up, down = (load(f"tcp.{way}.offload")["end"]["sum_received"]["bytes"] for way in ("up", "down"))
sys.exit(not (peer["vpn_rx_bytes"] > up and peer["vpn_tx_bytes"] > down))
PYTHON
}

# measure PATH: everything with that path on the server; figures in `up`, `down`, `rtt`, `pings`, by path.
declare -A up down rtt pings
measure() {
    local path=$1 rate
    start "$path"
    # The first packets wait for nobody: until a MAC address is known, there is no way there.
    ping_tunnel ping.first -c 20 -i 0.1 -q || true
    say 'ping through the tunnel'
    ping_tunnel "ping.$path" -c 21 -i 0.05 || fail 'no answer through the tunnel' "$WORK/ping.$path" "$WORK/server.log" "$WORK/client.log"
    sed -n -e '1,4s/^/    /p' -e '/packets transmitted/,$s/^/    /p' "$WORK/ping.$path"
    [ "$path" = own ] || grep -q ' 0% packet loss' "$WORK/ping.$path" || fail 'pings were lost' "$WORK/ping.$path" "$WORK/gateway.log"
    rtt[$path]=$(sed -n 's/.* time=\([0-9.]*\) ms$/\1/p' "$WORK/ping.$path" | sort -n | sed -n 11p)
    say "TCP through the tunnel, $SECONDS_EACH seconds each way"
    throughput "tcp.up.$path"
    up[$path]=$rate
    printf '    client to server %6d Mbit/s\n' "$rate"
    throughput "tcp.down.$path" -R
    down[$path]=$rate
    printf '    server to client %6d Mbit/s\n' "$rate"
    say 'the next renegotiation, with 50 pings a second'
    renegotiate "$path"
    if [ "$path" = offload ]; then
        say 'ovpn-dpdk status'
        show_status
    fi
    end_children
    remove_namespaces
}

# line WHAT OFFLOAD OWN: a row of the table.
line() {
    printf '    %-24s %12s %16s %9s\n' "$1" "$2" "$3" "$(awk -v a="$2" -v b="$3" 'BEGIN { printf "%.2f", a / b }')"
}

daemon_demo() {
    build
    make_certificates
    say 'a stock OpenVPN server with its data channel in ovpn-dpdk, and a stock client'
    measure offload
    say "the same with OpenVPN's own data path"
    measure own
    say 'side by side'
    printf '    %-24s %12s %16s %9s\n' '' ovpn-dpdk 'own data path' ratio
    line 'client to server, Mbit/s' "${up[offload]}" "${up[own]}"
    line 'server to client, Mbit/s' "${down[offload]}" "${down[own]}"
    line 'median round trip, ms' "${rtt[offload]}" "${rtt[own]}"
    echo "demo: ok client to server ${up[offload]} Mbit/s (own data path ${up[own]})," \
        "server to client ${down[offload]} (${down[own]}), median round trip ${rtt[offload]} ms (${rtt[own]})," \
        "renegotiated, 0 of ${pings[offload]} pings lost"
}
