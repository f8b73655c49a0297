# Give a service some instances, and let clients send in a loop:
#   sh load.sh MODEL INSTANCES CLIENTS
# perf_analyzer's report is MODEL.INSTANCES.CLIENTS.csv.
cd "$TRITON_MODELS" || exit
sed -i "s/count: [0-9]*/count: $2/" "$1/config.pbtxt"
curl -sX POST "$TRITON_HTTP/v2/repository/models/$1/load"
echo "$1 with $2 instances:"
perf_analyzer -m "$1" -i grpc -u "$TRITON_GRPC" --concurrency-range "$3" \
  --input-data zero -p 500 -s 200 -r 20 -f "$1.$2.$3.csv" | grep '^Concurrency'
