# ---
# title: Security
# minutes: 27
# ---

# %% [markdown]
# # Security
#
# **Question.** The digits model runs in a network that others use, too. Who can read the pictures, who may ask the model, and who may replace it?
#
# ![Triton; marked are clients, HTTP and gRPC](architecture.svg)

# %%
import os

import setup
from workbook.lessons import *  # predict, compare, show and so on: the course's own words
from workbook.lessons.shared import digits_model

models = setup.models("security")  # digits_onnx
keys = folder("security_keys").resolve()
lab = laboratory(models, control="none")
os.environ |= {"TRITON_OPEN": lab.grpc_url, "TRITON_KEYS": str(keys)}

# %% [markdown]
# ## What a listener reads
#
# A client sends one picture over gRPC to a server without protection. Its address is in `TRITON_OPEN`.

# %% tags=["triton"]
import os

import numpy as np
import tritonclient.grpc as grpc
from sklearn.datasets import load_digits

picture = (load_digits().images[:1, None] / 16).astype(np.float32)
image = grpc.InferInput("image", [1, 1, 8, 8], "FP32")
image.set_data_from_numpy(picture)


def read_digit(address, **options):
    """Ask which digit the picture shows, over a new connection."""
    with grpc.InferenceServerClient(address, **options) as client:
        logits = client.infer("digits_onnx", [image], client_timeout=5).as_numpy("logits")
    return int(logits.argmax())


read_digit(os.environ["TRITON_OPEN"])

# %% [markdown]
# Everybody between client and server can keep what passes. Here a relay does. In the message, `3a` stands before a tensor's bytes, then their length: 256 is `80 02` ([protobuf](https://protobuf.dev/programming-guides/encoding/)).

# %%
with measure.Tap(os.environ["TRITON_OPEN"]) as relay:
    read_digit(relay.address)
begin = relay.traffic.find(b"\x3a\x80\x02") + 3
seen = np.frombuffer(relay.traffic[begin : begin + 256], "<f4").reshape(1, 1, 8, 8)
digits_model.show_pictures(seen)

# %%
claim(
    np.array_equal(seen, picture),
    "The listener has the picture, pixel by pixel.",
    "Run the cell above again.",
    id="security.plain",
)

# %% [markdown]
# ## Certificates
#
# With TLS the server shows a *certificate*: a name, a public key, and the signature of an *authority* that the client trusts. We make an authority of our own (`root`), and let it sign a certificate for the name `localhost`. Then one for a client, for later.

# %% language="bash" tags=["triton"]
# cd $TRITON_KEYS
# test -e server.pem && exit  # a server uses them already
# exec 2> openssl.log
# new="-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
# openssl req -x509 -days 2 -subj /CN=course $new -keyout root.key -out root.pem
# echo subjectAltName=DNS:localhost > names
# for who in server client; do
#   openssl req -subj /CN=$who $new -keyout $who.key -out $who.csr
#   openssl x509 -req -days 2 -in $who.csr -out $who.pem \
#     -CA root.pem -CAkey root.key -CAcreateserial -extfile names
# done
# ls

# %% [markdown]
# A `.key` file stays secret; a `.pem` file is for everybody; a `.csr` file asks the authority for a signature. Now a server with this certificate. These are Triton's options for TLS at the gRPC port:

# %%
tls = ["--grpc-use-ssl=true"]
tls += [f"--grpc-server-cert={keys}/server.pem", f"--grpc-server-key={keys}/server.key"]
secure = laboratory(models, control="none", options=tls)
os.environ["TRITON_TLS"] = secure.grpc_url

# %% [markdown]
# Four clients ask this server:
#
# | client | trusts | calls |
# |---|---|---|
# | A | our authority | localhost |
# | B | our authority | 127.0.0.1 |
# | C | public authorities only | localhost |
# | D | (speaks without TLS) | localhost |

# %%
predict(
    "security.name",
    "Which of the four clients get an answer?",
    {
        "A alone": None,
        "A and B": "The two addresses lead to the same server, but the certificate names "
        "localhost only. A client cannot know that 127.0.0.1 is the same machine.",
        "A, B and C": "C speaks TLS, too. But no authority that C trusts has signed the certificate, "
        "so C closes the connection. And B calls an address that is not in it.",
        "all": "This port speaks TLS only, so D gets nothing. B and C do not accept the certificate.",
    },
)

# %% tags=["triton"]
from tritonclient.utils import InferenceServerException


def answer(address, **options):
    try:
        return f"yes: it is a {read_digit(address, **options)}"
    except InferenceServerException as error:
        return f"no: {error.message().rpartition('last error: ')[2]}"


name = os.environ["TRITON_TLS"]
number = name.replace("localhost", "127.0.0.1")
trust = {"ssl": True, "root_certificates": f"{os.environ['TRITON_KEYS']}/root.pem"}
clients = {"A": (name, trust), "B": (number, trust), "C": (name, {"ssl": True}), "D": (name, {})}
answers = {who: answer(address, **options) for who, (address, options) in clients.items()}
print(*(f"{who}  {text}" for who, text in answers.items()), sep="\n")

# %%
compare(
    "security.name",
    setup.who_gets_in(answers),
    premise=Premise(answers["A"].startswith("yes"), "not even A got an answer"),
)

# %% [markdown]
# Help B by writing `IP:127.0.0.1` into the names as well. Never help C by switching the check off: then anybody in between can show a certificate of their own.
#
# Triton's HTTP port has no TLS of its own: put a proxy that has it in front ([secure deployment](https://github.com/triton-inference-server/server/blob/main/docs/customization_guide/deploy.md#deploying-behind-a-secure-proxy-or-gateway)).
#
# <details><summary>Such a proxy: nginx</summary>
#
# Not run here. Triton gets `--http-address=127.0.0.1`, so that nobody goes round the proxy:
#
# ```nginx
# server {
#   listen 443 ssl;
#   ssl_certificate server.pem;
#   ssl_certificate_key server.key;
#   client_max_body_size 64m;  # its default, 1m, refuses larger requests
#   location / { proxy_pass http://127.0.0.1:8000; }
# }
# ```
#
# </details>
#
# `openssl` shows and checks what a server presents:

# %% language="bash" tags=["triton"]
# openssl s_client -connect $TRITON_TLS -servername localhost -verify_hostname localhost \
#   -CAfile $TRITON_KEYS/root.pem -alpn h2 -brief < /dev/null 2>&1 | grep -iE 'protocol|cert|verif'

# %%
with measure.Tap(os.environ["TRITON_TLS"]) as between:
    read_digit(between.address, **trust)
secret = between.traffic
print(len(secret), "bytes crossed the wire, among them:", secret[200:240].hex(" ", 4))

# %%
hidden = b"digits_onnx" not in secret and picture.tobytes() not in secret and len(secret) > 500
claim(
    hidden,
    "With TLS the listener finds neither the model's name nor the picture.",
    "Run the section's cells again, in their order.",
    id="security.tls",
)

# %% [markdown]
# ## Mutual TLS
#
# So far the client knows the server. In mutual TLS the server wants a certificate, too. `--grpc-root-cert` says whose signature it accepts ([options](https://github.com/triton-inference-server/server/blob/main/docs/customization_guide/inference_protocols.md#ssltls)).

# %%
both = [*tls, "--grpc-use-ssl-mutual=true", f"--grpc-root-cert={keys}/root.pem"]
mutual = laboratory(models, control="none", options=both)
os.environ["TRITON_MUTUAL"] = mutual.grpc_url

# %% tags=["triton"]
mine = f"{os.environ['TRITON_KEYS']}/client"
shown = {"private_key": f"{mine}.key", "certificate_chain": f"{mine}.pem"}
known = answer(os.environ["TRITON_MUTUAL"], **trust, **shown)
unknown = answer(os.environ["TRITON_MUTUAL"], **trust)
print(known, unknown, sep="\n")

# %%
claim(
    known.startswith("yes") and unknown.startswith("no"),
    "A client with a certificate gets an answer; one without gets none.",
    "Run the cells from the section on certificates on again.",
    id="security.mutual",
)

# %% [markdown]
# ## What it costs
#
# Opening a connection takes more messages with TLS, and some computing. After that each byte is encrypted. What does each of them cost? We open ten connections each way and ask once; then we ask 50 times through an open one.

# %% tags=["triton"]
import time

import pandas as pd


def median_ms(times, action, *given, **options):
    took = []
    for _ in range(times + 1):  # the first call is to warm up
        began = time.perf_counter()
        action(*given, **options)
        took.append((time.perf_counter() - began) * 1000)
    return np.median(took[1:])


def cost(address, **options):
    """The milliseconds of a request over an open connection, and of opening a connection."""
    with grpc.InferenceServerClient(address, **options) as client:
        request = median_ms(50, client.infer, "digits_onnx", [image])
    return {"request": request, "opening": median_ms(10, read_digit, address, **options) - request}


# %% tags=["triton"]
costs = pd.DataFrame(
    {
        "plain": cost(os.environ["TRITON_OPEN"]),
        "TLS": cost(os.environ["TRITON_TLS"], **trust),
        "mutual TLS": cost(os.environ["TRITON_MUTUAL"], **trust, **shown),
    }
).T
costs.round(2)

# %%
claim(
    costs.loc["TLS", "request"] - costs.loc["plain", "request"] < costs.loc["TLS", "opening"],
    "On an open connection TLS adds less than opening a new one takes: keep connections.",
    "Other programs may take the cores: close them and run the cell above again.",
    id="security.cost",
)

# %% [markdown]
# ## Who may change models?
#
# A request to load a model can carry the model's files. A Python model is a program. So whoever may load models can run programs on your server.
#
# A *restricted* API answers only requests that carry a secret in a header. Here this is the API of the model repository:

# %%
rule = "model-repository:admin-key=open-sesame"
half = laboratory(models, control="none", options=[f"--http-restricted-api={rule}"])
# TRITON_HTTP, TRITON_GRPC and TRITON_METRICS lead to the newest server: now to this one.

# %%
predict(
    "security.restricted",
    "Somebody without the secret asks for the list of models, over HTTP and over gRPC. Who answers?",
    {
        "neither": "The option's name says it: http. gRPC has an option of its own, "
        "`--grpc-restricted-protocol`, and without it the list is open there.",
        "gRPC only": None,
        "both": "Without the key, HTTP answers with status 403: in the table it is False.",
    },
)

# %% language="bash" tags=["triton"]
# curl -si -X POST $TRITON_HTTP/v2/repository/index
# echo
# curl -s -X POST $TRITON_HTTP/v2/repository/index -H 'admin-key: open-sesame'

# %% tags=["triton"]
import requests


def lists():
    """Whether HTTP and gRPC give the list of models, without and with the secret."""
    found, url = {}, f"http://{os.environ['TRITON_HTTP']}/v2/repository/index"
    for who, secrets in {"no key": {}, "with the key": {"admin-key": "open-sesame"}}.items():
        found[who] = {"HTTP": requests.post(url, headers=secrets).ok, "gRPC": True}
        headers = {f"triton-grpc-protocol-{name}": word for name, word in secrets.items()}
        with grpc.InferenceServerClient(os.environ["TRITON_GRPC"]) as client:
            try:
                client.get_model_repository_index(headers=headers)
            except InferenceServerException:
                found[who]["gRPC"] = False
    return pd.DataFrame(found)


# %% tags=["triton"]
one_rule = lists()
one_rule

# %%
compare(
    "security.restricted",
    setup.who_answers(one_rule["no key"]),
    premise=Premise(one_rule["with the key"].all(), "the key opens nothing"),
)

# %% [markdown]
# gRPC has an option of its own, and its header begins with `triton-grpc-protocol-`. Now with both:

# %%
half.stop()
rules = [f"--http-restricted-api={rule}", f"--grpc-restricted-protocol={rule}"]
full = laboratory(models, control="none", options=rules)
two_rules = lists()
two_rules

# %%
claim(
    not two_rules["no key"].any() and two_rules["with the key"].all(),
    "With both rules, both ports want the key.",
    "Run the two cells above again.",
    id="security.restricted",
)

# %% [markdown]
# The header crosses the wire as it is: without TLS a listener has it, too. The third port, 8002, knows neither TLS nor restrictions: metrics are open to whoever reaches it.
#
# Restrict whatever your clients do not need. One rule may name several [APIs](https://github.com/triton-inference-server/server/blob/main/docs/customization_guide/inference_protocols.md#limit-endpoint-access-beta): `model-repository,shared-memory,trace,logging:admin-key=…`. Best of all, in production load models at the start only (mode `none`).

# %% [markdown]
# ## Your turn
#
# The server `door` is open for everybody. Protect it: gRPC over TLS, with a certificate for `localhost`, and the header `admin-key: two-eights` for the repository's API. Make the authority and the certificate in the folder `own`, in a bash cell that begins with `cd $TRITON_OWN`; clients trust `own/root.pem`. Then give `door.restart` your options.

# %%
own = folder("security_own").resolve()
os.environ["TRITON_OWN"] = str(own)
door = setup.Door(own)

# %%
door.restart(options=[])

# %%
task("security.door", server=door)

# %% [markdown]
# ## The same at work, without this course
#
# Is your server protected? Run this where nobody should have access, with your server's addresses. Here it looks at the server with both rules, which has no TLS. What else would you close?

# %%
show("at_work/audit.py")

# %% tags=["triton"]
# %run at_work/audit.py

# %% [markdown]
# ## What to remember
#
# - Without TLS everybody on the way reads everything. gRPC has TLS; HTTP needs a proxy in front.
# - A client checks who signed the certificate and which name is in it. In mutual TLS the server checks the client.
# - Whoever may load models runs programs: restrict `model-repository` on both ports, and encrypt the secret.

# %% [markdown]
# ## Check yourself
#
# <details><summary>You restricted the repository's API on both ports, without TLS. What can a listener do?</summary>
#
# Read the pictures and the answers. And read the secret, which is a header of each request to this API, and then load a model of their own.
#
# </details>
#
# <details><summary>The certificate names triton.example.org. Inside the cluster a client calls 10.0.0.7 and is refused. Name two ways out.</summary>
#
# Let the client call the name (its name server can lead there), or add the address to the certificate's names. Not: switch the check off.
#
# </details>
#
# <details><summary>gRPC and the proxy for HTTP have mutual TLS. A stranger still knows your models' names and their load. From where?</summary>
#
# From the metrics port, which has neither TLS nor restrictions. Bind it to an address that only Prometheus reaches (`--metrics-address`).
#
# </details>
#
# Next: [generate](../11__generate/11__generate.ipynb).
