#!/bin/sh
# Two frontends and three workers on one machine, started by hand. They stop when you press Enter,
# or at once when there is no terminal. Usage: several-frontends.sh [folder]
set -eu

FIRST_PORT="${FIRST_PORT:-8080}"
SECOND_PORT="${SECOND_PORT:-8081}"
FOLDER="${1:-$(mktemp -d)}"
CORRAL_HOME="$FOLDER/first"
export CORRAL_HOME
FIRST="http://127.0.0.1:$FIRST_PORT"
SECOND="http://127.0.0.1:$SECOND_PORT"
PIDS=""
umask 077

stop() {
    trap - EXIT INT TERM
    for pid in $PIDS; do kill "$pid" 2>/dev/null || true; done
    for pid in $PIDS; do wait "$pid" || true; done
    corral down
}
trap stop EXIT
trap 'exit 1' INT TERM

wait_for() { # wait_for "what" command...: until the command succeeds, for a minute
    what="$1"; shift
    tries=0
    until "$@"; do
        tries=$((tries + 1))
        if [ "$tries" -gt 60 ]; then echo "error: $what did not happen; the logs are in $FOLDER" >&2; exit 1; fi
        sleep 1
    done
}

second() { corral "$@" --url "$SECOND" --key-file "$CORRAL_HOME/admin.key"; }
port_of() { corral status --json | sed -n "/\"$1\": {/,/}/s/.*\"port\": \([0-9]*\).*/\1/p"; }
has_nodes() { # has_nodes count status command...: the command that lists them comes last
    count="$1"; status="$2"; shift 2
    [ "$("$@" nodes list --status "$status" --json | grep -c '"name": "worker-')" -eq "$count" ]
}

echo "1  The first frontend, with PostgreSQL, NATS and a worker"
CORRAL_NAME=worker-1 corral up --detach --port "$FIRST_PORT"

echo "2  The second frontend, on the same PostgreSQL and NATS"
printf 'postgresql://corral:%s@127.0.0.1:%s/corral' \
    "$(cat "$CORRAL_HOME/secrets/postgres-password")" "$(port_of postgres)" > "$FOLDER/database-url"
corral serve --port "$SECOND_PORT" \
    --database-url-file "$FOLDER/database-url" \
    --nats-url "nats://127.0.0.1:$(port_of nats)" \
    --nats-account-seed-file "$CORRAL_HOME/secrets/nats-account.seed" \
    --nats-operator-seed-file "$CORRAL_HOME/secrets/nats-operator.seed" \
    --nats-system-seed-file "$CORRAL_HOME/secrets/nats-system.seed" \
    --secrets-key-file "$CORRAL_HOME/secrets.key" \
    --state-dir "$FOLDER/second" \
    > "$FOLDER/second.log" 2>&1 &
PIDS="$PIDS $!"
second_answers() { second cluster > /dev/null 2>&1; }
wait_for "the second frontend's answer" second_answers

echo "3  Two more workers, which know both frontends and need approval"
corral tokens create --uses 2 --json | sed -n 's/.*"token": "\([^"]*\)".*/\1/p' > "$FOLDER/token"
for name in worker-2 worker-3; do
    corral worker --join "$FIRST,$SECOND" --token-file "$FOLDER/token" \
        --name "$name" --worker-home "$FOLDER/$name" > "$FOLDER/$name.log" 2>&1 &
    PIDS="$PIDS $!"
done
wait_for "the arrival of two nodes" has_nodes 2 pending corral

echo "4  One is approved on each frontend"
corral nodes approve worker-2
second nodes approve worker-3
wait_for "three healthy nodes on the first frontend" has_nodes 3 healthy corral
wait_for "three healthy nodes on the second frontend" has_nodes 3 healthy second

echo "5  Both frontends show the same"
corral cluster
corral nodes list
second nodes list

if [ -t 0 ]; then
    echo "Try: kill -9 one of the processes, and watch with: CORRAL_HOME=$CORRAL_HOME corral nodes watch"
    printf 'Enter stops everything. '
    read -r _
fi
