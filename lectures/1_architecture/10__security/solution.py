import subprocess

own = server.papers
script = """
new="-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
openssl req -x509 -days 2 -subj /CN=mine $new -keyout root.key -out root.pem
echo subjectAltName=DNS:localhost > names
openssl req -subj /CN=server $new -keyout server.key -out server.csr
openssl x509 -req -days 2 -in server.csr -out server.pem \\
  -CA root.pem -CAkey root.key -CAcreateserial -extfile names
"""
subprocess.run(["bash", "-ec", script], cwd=own, check=True, capture_output=True)
rule = "model-repository:admin-key=two-eights"
server.restart(
    options=[
        "--grpc-use-ssl=true",
        f"--grpc-server-cert={own}/server.pem",
        f"--grpc-server-key={own}/server.key",
        f"--http-restricted-api={rule}",
        f"--grpc-restricted-protocol={rule}",
    ]
)
