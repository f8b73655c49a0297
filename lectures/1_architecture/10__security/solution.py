import setup

own = server.papers
(own / "names").write_text("subjectAltName=DNS:localhost")
root = "-CA root.pem -CAkey root.key -CAcreateserial -extfile names"
setup.openssl(own, "req -x509 -days 2 -subj /CN=mine -out root.pem NEW_KEY root.key")
setup.openssl(own, "req -subj /CN=server -out server.csr NEW_KEY server.key")
setup.openssl(own, f"x509 -req -days 2 -in server.csr -out server.pem {root}")
rule = "model-repository:admin-key=two-eights"
server.restart(
    tls={"cert": own / "server.pem", "key": own / "server.key"},
    options=[f"--http-restricted-api={rule}", f"--grpc-restricted-protocol={rule}"],
)
