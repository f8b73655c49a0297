#!/bin/sh
# After a change of the image: does the server have every model of its repository?
#
#     TRITON_HTTP=localhost:9000 sh check_image.sh
#
# Start the server with --exit-on-error=false: then it tells which models it refused, and why.
server=${TRITON_HTTP:-localhost:8000}

curl -sf --retry 60 --retry-delay 1 --retry-connrefused "$server/v2/health/live" || exit 2
echo "Triton's core: $(curl -s "$server/v2" | grep -o '"version":"[^"]*"')"

models=$(curl -sX POST "$server/v2/repository/index" | tr '}' '\n')
echo "Ready: $(echo "$models" | grep -c '"READY"') versions"
refused=$(echo "$models" | grep '"UNAVAILABLE"' | grep -v '"unloaded"')
[ -z "$refused" ] && exit 0
echo "Refused:"
echo "$refused"
exit 1
