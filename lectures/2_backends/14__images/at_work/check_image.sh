#!/bin/sh
# After a change of the image: does the server have every model of its repository?
#
#     TRITON_HTTP=localhost:9000 sh check_image.sh
server=${TRITON_HTTP:-localhost:8000}

# Wait up to a minute for the server. Exit code 2: it did not start.
curl -sf --retry 60 --retry-delay 1 --retry-connrefused "$server/v2/health/live" || exit 2
echo "Triton's core: $(curl -s "$server/v2" | grep -o '"version":"[^"]*"')"

# The index has one entry for each version of a model, with its state and, if refused, the reason.
index=$(curl -sX POST "$server/v2/repository/index" | tr '}' '\n')
echo "Ready: $(echo "$index" | grep -c '"READY"') versions"
refused=$(echo "$index" | grep '"UNAVAILABLE"' | grep -v '"unloaded"')
[ -z "$refused" ] && exit 0
echo "Refused:"
echo "$refused" | sed 's/.*"name":"\([^"]*\)","version":"\([^"]*\)".*"reason":"\(.*\)/  \1, version \2: \3/'
exit 1
