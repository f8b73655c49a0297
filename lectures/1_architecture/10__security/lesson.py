# ---
# title: Security
# minutes: 16
# ---

# %% [markdown]
# # Security
#
# **Question.** The digits model runs in a network that others use, too. Who can read the pictures, who may ask the model, and who may replace it?
#
# ![Triton; marked are clients, HTTP and gRPC](architecture.svg)

# %%
import httpx
import numpy as np
import pandas as pd

import setup
from workbook import measure
from workbook.common import paths
from workbook.lessons import Premise, claim, compare, laboratory, predict, task
from workbook.lessons.shared import digits_model, timing

server = laboratory(paths.repository(), only=["digits_onnx"])
picture = digits_model.pictures()[:1]

# %% [markdown]
# ## What a listener reads
#
# Everybody between client and server can keep what passes. Here `measure.Tap` does. A client sends one picture over gRPC. In the message, `3a` stands before a tensor's bytes, then their length: 256 is `80 02` ([protobuf](https://protobuf.dev/programming-guides/encoding/)).

# %%
traffic = setup.listen(server, picture)
begin = traffic.find(b"\x3a\x80\x02") + 3
seen = np.frombuffer(traffic[begin : begin + 256], "<f4").reshape(1, 1, 8, 8)
same = np.array_equal(seen, picture)
claim(
    same,
    "The listener has the picture, pixel by pixel.",
    "Run this cell again.",
    id="security.plain",
)
digits_model.show_pictures(seen)

# %% [markdown]
# ## Certificates
#
# With TLS the server shows a *certificate*: a name, a public key, and the signature of an *authority* that the client trusts. We make an authority of our own (`root`), and let it sign a certificate for the name `localhost`. Then one for a client, for later.

# %%
papers = setup.papers("security")
(papers / "names").write_text("subjectAltName=DNS:localhost")
by_root = "-CA root.pem -CAkey root.key -CAcreateserial -extfile names"
setup.openssl(papers, "req -x509 -days 2 -subj /CN=course -out root.pem NEW_KEY root.key")
for who in ("server", "client"):
    setup.openssl(papers, f"req -subj /CN={who} -out {who}.csr NEW_KEY {who}.key")
    setup.openssl(papers, f"x509 -req -days 2 -in {who}.csr -out {who}.pem {by_root}")
print(*sorted(file.name for file in papers.iterdir()))

# %% [markdown]
# `security.openssl` runs the program openssl; `NEW_KEY` stands for the arguments that make a key without a password. A `.key` file stays secret; a `.pem` file is for everybody.
#
# Now a server with this certificate, and four clients:
#
# | client | trusts | calls |
# |---|---|---|
# | A | our authority | localhost |
# | B | our authority | 127.0.0.1 |
# | C | the system's authorities | localhost |
# | D | (speaks without TLS) | localhost |

# %%
predict(
    "security.name",
    "Which of the four clients get an answer?",
    {
        "A": None,
        "A and B": "The two addresses lead to the same server, but the certificate names "
        "localhost only. A client cannot know that 127.0.0.1 is the same machine.",
        "A, B and C": "C speaks TLS, too. But no authority that C trusts has signed the certificate, "
        "so C closes the connection. And B calls an address that is not in it.",
        "all": "This port speaks TLS only, so D gets nothing. B and C do not accept the certificate.",
    },
)

# %%
tls = {"cert": papers / "server.pem", "key": papers / "server.key"}
secure = laboratory(paths.repository(), only=["digits_onnx"], tls=tls)
name, number = secure.grpc_url, secure.grpc_url.replace("localhost", "127.0.0.1")
trust = {"ssl": True, "root_certificates": str(papers / "root.pem")}
clients = {"A": (name, trust), "B": (number, trust), "C": (name, {"ssl": True}), "D": (name, {})}
answers = {who: setup.reach(url, **options) for who, (url, options) in clients.items()}
secret = setup.listen(secure, picture, **trust)
pd.Series(answers, name="gets an answer").to_frame()

# %%
inside = [who for who, answer in answers.items() if answer == "yes"]
clients_in = {1: "A", 2: "A and B", 3: "A, B and C"}.get(len(inside), "all")
compare("security.name", clients_in, premise=Premise("A" in inside, "not even A got an answer"))
hidden = b"digits_onnx" not in secret and picture.tobytes() not in secret and len(secret) > 500
claim(
    hidden,
    "With TLS the listener finds neither the model's name nor the picture.",
    "Run the section's cells again, in their order.",
    id="security.tls",
)

# %% [markdown]
# Help B by writing `IP:127.0.0.1` into the names as well. Never help C by switching the check off: then anybody in between can show a certificate of their own.
#
# Triton's HTTP port has no TLS of its own: put a proxy that has it in front ([secure deployment](https://github.com/triton-inference-server/server/blob/main/docs/customization_guide/deploy.md#deploying-behind-a-secure-proxy-or-gateway)).

# %% [markdown]
# ## Mutual TLS
#
# So far the client knows the server. In mutual TLS the server wants a certificate, too. The file `root` says whose signature it accepts. In Triton's terms: `--grpc-use-ssl-mutual` and `--grpc-root-cert` ([options](https://github.com/triton-inference-server/server/blob/main/docs/customization_guide/inference_protocols.md#ssltls)).

# %%
shown = {"private_key": str(papers / "client.key"), "certificate_chain": str(papers / "client.pem")}
both = {**tls, "root": papers / "root.pem"}
mutual = laboratory(paths.repository(), only=["digits_onnx"], tls=both)
known = setup.reach(mutual.grpc_url, **trust, **shown)
unknown = setup.reach(mutual.grpc_url, **trust)
right = known == "yes" and unknown != "yes"
claim(
    right,
    f"A client with a certificate gets an answer; one without gets {unknown.removeprefix('no: ')}.",
    "Run the cells from the section on certificates on again.",
    id="security.mutual",
)

# %% [markdown]
# ## What it costs
#
# Opening a connection takes more messages with TLS, and some computing. After that each byte is encrypted. What does each of them cost? We open ten connections each way and ask once; then we ask 50 times through an open one.

# %%
import tritonclient.grpc as grpc

ways = {"plain": (server, {}), "TLS": (secure, trust), "mutual TLS": (mutual, {**trust, **shown})}
ms = {}
for way, (where, options) in ways.items():
    with grpc.InferenceServerClient(where.grpc_url, **options) as client:
        kept = timing.median_ms(setup.read_digit, client, picture, times=50)
    anew = timing.median_ms(setup.read_digit_once, where.grpc_url, picture, times=10, **options)
    ms[way] = {"open connection": kept, "opening": anew - kept}
costs = pd.DataFrame(ms).T
measure.plot_bars(costs, title="One picture over gRPC", below="ms, median")

# %%
extra = costs.loc["TLS"] - costs.loc["plain"]
print("TLS adds, in ms:", extra.round(2).to_dict())
less = extra["open connection"] < costs.loc["TLS", "opening"]
claim(
    less,
    "On an open connection TLS adds less than opening a new one takes: keep connections.",
    "Other programs may take the cores: close them and run both cells again.",
    id="security.cost",
)

# %% [markdown]
# ## Who may change models?
#
# A request to load a model can carry the model's files. A Python model is a program. So whoever may load models can run programs on your server.
#
# A *restricted* API answers only requests that carry a secret in a header. This server is started with `--http-restricted-api=model-repository:admin-key=open-sesame`.

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


# %%
def opens(rules):
    """Whether HTTP and gRPC give the list of models, without and with the key."""
    found = {}
    with setup.Triton(models=["digits_onnx"], options=rules) as guarded:
        for key in ({}, {"admin-key": "open-sesame"}):
            url = f"{guarded.url}/v2/repository/index"
            named = {f"triton-grpc-protocol-{name}": word for name, word in key.items()}
            found["with the key" if key else "no key"] = {
                "HTTP": httpx.post(url, headers=key).status_code == 200,
                "gRPC": setup.lists(guarded.grpc_url, headers=named),
            }
    return found


# %%
rule = "model-repository:admin-key=open-sesame"
half = opens([f"--http-restricted-api={rule}"])
full = opens([f"--http-restricted-api={rule}", f"--grpc-restricted-protocol={rule}"])
tables = {"HTTP's rule": pd.DataFrame(half), "both rules": pd.DataFrame(full)}
unkeyed = tuple(port for port, is_open in half["no key"].items() if is_open)
answer = {(): "neither", ("gRPC",): "gRPC only"}.get(unkeyed, "both")
works = Premise(all(half["with the key"].values()), "the key opens nothing")
compare("security.restricted", answer, premise=works)
shut = not any(full["no key"].values()) and all(full["with the key"].values())
claim(
    shut,
    "With both rules, both ports want the key.",
    "Run the two cells again.",
    id="security.restricted",
)
pd.concat(tables, axis=1)

# %% [markdown]
# The header crosses the wire as it is: without TLS a listener has it, too. The third port, 8002, knows neither TLS nor restrictions: metrics are open to whoever reaches it.
#
# Restrict whatever your clients do not need: [list of APIs](https://github.com/triton-inference-server/server/blob/main/docs/customization_guide/inference_protocols.md#limit-endpoint-access-beta). Best of all, in production load models at the start only (mode `none`).

# %% [markdown]
# ## Your turn
#
# The server `door` is open for everybody. Protect it: gRPC over TLS, with a certificate for `localhost`, and the header `admin-key: two-eights` for the repository's API. Make the authority and the certificate in the folder `own`; clients trust `own / "root.pem"`. Write your lines above `door.restart`, and give it `tls` and `options`.

# %%
own = setup.papers("security_own")
door = setup.Door(own)

# %%
door.restart(tls=None, options=[])

# %%
task("security.door", server=door)

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
