"""Five independent solutions of a2__forest, and ways to disguise a solution."""

from __future__ import annotations

import ast
import random

#: The cells' texts by author and by the cell's id.
ALONE: dict[str, dict[str, str]] = {
    "plain": {
        "a2.train": """
model = xgboost.XGBClassifier(**RECIPE)
model.fit(cancer.x_train, cancer.y_train)
library = model.predict_proba(cancer.x_test)
save_xgboost(model, "models/forest/1/xgboost.json")
""",
        "a2.names": """
deploy("models/forest")
result = ask(forest, cancer.x_test[:10], classes=1)
answers = []
for row in result:
    text = row[0].decode("utf-8")
    answers.append(text.split(":")[-1])
""",
        "a2.verdict": """
lgb = lightgbm.LGBMClassifier(**RECIPE_LIGHTGBM)
lgb.fit(cancer.x_train, cancer.y_train)
benign = lgb.predict_proba(cancer.x_test)[:, 1]
lgb.booster_.save_model("models/verdict/1/model.txt")
verdict = deploy("models/verdict").name
""",
        "a2.choose": """
missed = []
alarms = []
for t in GRID:
    predicted = benign > t
    missed.append(int(sum(predicted & (cancer.y_test == 0))))
    alarms.append(int(sum(~predicted & (cancer.y_test == 1))))
limit = sum(cancer.y_test == 1) / 10
threshold = None
for t, a in zip(GRID, alarms):
    if a <= limit:
        threshold = t
verdict = deploy("models/verdict").name
""",
        "a2.count": """
forest = deploy("models/forest").name
start = measure.statistics(server, forest)
ask_together(forest, cancer.x_test)
end = measure.statistics(server, forest)
row = measure.difference(start, end).iloc[0]
requests = int(row.requests)
executions = int(row.executions)
""",
        "a2.explain": """
forest = deploy("models/forest").name
p = ask(forest, cancer.x_test)[:, 1]
malignant = [i for i in range(114) if cancer.y_test[i] == 0]
patient = max(malignant, key=lambda i: p[i])
values = ask(forest, cancer.x_test[[patient]], "treeshap_output")[0]
ranking = sorted(range(30), key=lambda i: abs(values[i]), reverse=True)
reasons = [names[i] for i in ranking[:3]]
""",
    },
    "functions": {
        "a2.train": """
def train():
    classifier = xgboost.XGBClassifier(**RECIPE)
    return classifier.fit(cancer.x_train, cancer.y_train)

model = train()
save_xgboost(model, "models/forest/1/xgboost.json")
library = model.predict_proba(cancer.x_test)
""",
        "a2.names": """
import re

def label(answer):
    return re.match(rb"[^:]+:[^:]+:(.*)", answer).group(1).decode()

forest = deploy("models/forest").name
answers = list(map(label, ask(forest, cancer.x_test[0:10], classes=1).flatten()))
""",
        "a2.verdict": """
booster = lightgbm.LGBMClassifier(**RECIPE_LIGHTGBM).fit(X=cancer.x_train, y=cancer.y_train)
both = booster.predict_proba(cancer.x_test)
benign = both[:, list(booster.classes_).index(1)]
booster.booster_.save_model(filename="models/verdict/1/model.txt")
verdict = deploy("models/verdict").name
""",
        "a2.choose": """
def mistakes(border):
    says_benign = benign > border
    is_benign = cancer.y_test.astype(bool)
    return (np.count_nonzero(says_benign & ~is_benign), np.count_nonzero(is_benign & ~says_benign))

table = np.array([mistakes(border) for border in GRID])
missed, alarms = table[:, 0].tolist(), table[:, 1].tolist()
fits = table[:, 1] / cancer.y_test.sum() <= 0.1
threshold = float(np.asarray(GRID)[fits].max())
verdict = deploy("models/verdict").name
""",
        "a2.count": """
def counts():
    return measure.statistics(server, forest)[["requests", "executions"]].sum()

forest = deploy("models/forest").name
first = counts()
ask_together(forest, cancer.x_test)
requests, executions = (counts() - first).astype(int).tolist()
""",
        "a2.explain": """
forest = deploy("models/forest").name
table = ask(forest, cancer.x_test)
bad = np.flatnonzero(cancer.y_test == 0)
patient = int(bad[table[bad, 1].argmax()])
values = ask(forest, cancer.x_test[patient][None], output="treeshap_output").ravel()
strongest = np.abs(values[:-1]).argsort()[::-1]
reasons = names[strongest[:3]].tolist()
""",
    },
    "pandas": {
        "a2.train": """
import pandas as pd
model = xgboost.XGBClassifier(**RECIPE).fit(cancer.x_train, cancer.y_train)
path = "models/forest/1/xgboost.json"
save_xgboost(model, path)
library = model.predict_proba(cancer.x_test)
pd.DataFrame(library).describe()
""",
        "a2.names": """
forest = deploy("models/forest").name
raw = pd.Series(ask(forest, cancer.x_test[:10], classes=1).ravel()).str.decode("utf8")
answers = raw.str.split(":", expand=True)[2].tolist()
""",
        "a2.verdict": """
model2 = lightgbm.LGBMClassifier(**RECIPE_LIGHTGBM)
model2 = model2.fit(cancer.x_train, cancer.y_train)
model2.booster_.save_model("models/verdict/1/model.txt")
frame = pd.DataFrame(model2.predict_proba(cancer.x_test), columns=cancer.labels)
benign = frame.iloc[:, 1].to_numpy()
verdict = deploy("models/verdict").name
""",
        "a2.choose": """
data = pd.DataFrame({"p": benign, "y": cancer.y_test})
missed = [len(data.query("p > @t and y == 0")) for t in GRID]
alarms = [len(data.query("p <= @t and y == 1")) for t in GRID]
curve = pd.Series(alarms, index=GRID)
threshold = curve[curve <= 0.1 * data.y.sum()].index.max()
verdict = deploy("models/verdict").name
""",
        "a2.count": """
forest = deploy("models/forest").name
a = measure.statistics(server, forest).set_index("version")
ask_together(forest, cancer.x_test)
b = measure.statistics(server, forest).set_index("version")
requests = int((b - a).requests.sum())
executions = int(b.executions.sum() - a.executions.sum())
""",
        "a2.explain": """
forest = deploy("models/forest").name
scores = pd.Series(ask(forest, cancer.x_test)[:, 1])
patient = scores[cancer.y_test == 0].idxmax()
values = ask(forest, cancer.x_test[patient : patient + 1], "treeshap_output").reshape(31)
reasons = pd.Series(values[:30], index=names).abs().nlargest(3).index.tolist()
""",
    },
    "short": {
        "a2.train": """
model = xgboost.XGBClassifier(**RECIPE).fit(cancer.x_train, cancer.y_train)
save_xgboost(model, "models/forest/1/xgboost.json")
library = model.predict_proba(cancer.x_test)
""",
        "a2.names": """
forest = deploy("models/forest").name
answers = [a.decode().rsplit(":", 1)[1] for [a] in ask(forest, cancer.x_test[:10], classes=1)]
""",
        "a2.verdict": """
m = lightgbm.LGBMClassifier(**RECIPE_LIGHTGBM).fit(cancer.x_train, cancer.y_train)
m.booster_.save_model("models/verdict/1/model.txt")
_, benign = m.predict_proba(cancer.x_test).T
verdict = deploy("models/verdict").name
""",
        "a2.choose": """
sick, well = benign[cancer.y_test == 0], benign[cancer.y_test == 1]
missed = [int((sick > t).sum()) for t in GRID]
alarms = [int((well <= t).sum()) for t in GRID]
threshold = GRID[max(i for i, n in enumerate(alarms) if 10 * n <= len(well))]
verdict = deploy("models/verdict").name
""",
        "a2.count": """
forest = deploy("models/forest").name
was = measure.statistics(server, forest)
ask_together(forest, cancer.x_test)
d = measure.difference(was, measure.statistics(server, forest))
requests, executions = (int(d[k].sum()) for k in ("requests", "executions"))
""",
        "a2.explain": """
forest = deploy("models/forest").name
patient = int(np.ma.array(ask(forest, cancer.x_test)[:, 1], mask=cancer.y_test).argmax())
(values,) = ask(forest, cancer.x_test[patient, None], "treeshap_output")
reasons = [names[i] for i in np.argsort(abs(values[:30]))[-3:]]
""",
    },
    "careful": {
        "a2.train": """
params = dict(RECIPE)
model = xgboost.XGBClassifier(**params)
assert cancer.x_train.dtype == np.float32
model.fit(cancer.x_train, cancer.y_train)
assert list(model.classes_) == [0, 1]
library = model.predict_proba(cancer.x_test)
assert library.shape == (114, 2)
save_xgboost(model, "models/forest/1/xgboost.json")
""",
        "a2.names": """
deployment = deploy("models/forest")
forest = deployment.name
reply = ask(forest, cancer.x_test[:10], classes=1)
assert reply.shape == (10, 1)
answers = [None] * 10
for number in range(10):
    value, index, word = reply[number, 0].decode().split(":")
    answers[number] = word
""",
        "a2.verdict": """
settings = {**RECIPE_LIGHTGBM}
gradient = lightgbm.LGBMClassifier(**settings)
gradient.fit(cancer.x_train, cancer.y_train)
output = gradient.predict_proba(cancer.x_test)
assert np.allclose(output.sum(axis=1), 1)
benign = output[:, 1]
gradient.booster_.save_model("models/verdict/1/model.txt")
verdict = deploy("models/verdict").name
""",
        "a2.choose": """
missed, alarms = [0] * len(GRID), [0] * len(GRID)
for place, border in enumerate(GRID):
    for probability, truth in zip(benign, cancer.y_test):
        if truth == 0 and probability > border:
            missed[place] += 1
        elif truth == 1 and not probability > border:
            alarms[place] += 1
healthy = int(np.sum(cancer.y_test))
candidates = [border for place, border in enumerate(GRID) if alarms[place] <= healthy // 10]
threshold = candidates[-1]
verdict = deploy("models/verdict").name
""",
        "a2.count": """
forest = deploy("models/forest").name
earlier = measure.statistics(server, forest)
requests_before = int(earlier["requests"].sum())
executions_before = int(earlier["executions"].sum())
ask_together(forest, cancer.x_test)
later = measure.statistics(server, forest)
requests = int(later["requests"].sum()) - requests_before
executions = int(later["executions"].sum()) - executions_before
""",
        "a2.explain": """
forest = deploy("models/forest").name
probabilities = ask(forest, cancer.x_test)
best, patient = -1.0, -1
for number, row in enumerate(probabilities):
    if cancer.y_test[number] == 0 and row[1] > best:
        best, patient = float(row[1]), number
values = ask(forest, cancer.x_test[patient : patient + 1], "treeshap_output")[0]
assert len(values) == 31
pairs = [(abs(float(value)), name) for value, name in zip(values, names)]
pairs.sort(reverse=True)
reasons = [name for _, name in pairs[:3]]
""",
    },
}

#: Names that a check cell asks for: a copy cannot rename them.
FIXED = {
    *("model", "library", "forest", "served", "answers", "benign", "verdict", "missed", "alarms"),
    *("threshold", "requests", "executions", "patient", "values", "reasons", "first", "third"),
    "plain",
}


class _Rename(ast.NodeTransformer):
    def __init__(self, names: dict[str, str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self.names.get(node.id, node.id), node.ctx)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        return ast.arg(self.names.get(node.arg, node.arg))

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.name = self.names.get(node.name, node.name)
        return self.generic_visit(node)


def disguised(cells: dict[str, str], seed: int) -> dict[str, str]:
    """A disguised copy: other names and layout, comments, prints, and other quotation marks."""
    chance = random.Random(seed)
    stored = {
        node.id
        for text in cells.values()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    names = {name: f"v{seed}_{place}" for place, name in enumerate(sorted(stored - FIXED))}
    made = {}
    for id, text in cells.items():
        lines = ast.unparse(_Rename(names).visit(ast.parse(text))).splitlines()
        for place in range(len(lines) - 1, -1, -1):
            indent = lines[place][: len(lines[place]) - len(lines[place].lstrip())]
            if chance.random() < 0.3:
                lines.insert(
                    place, f"{indent}# {chance.choice(['now', 'this works', 'see above'])}"
                )
            if chance.random() < 0.15 and not indent and not lines[place].lstrip().startswith("#"):
                lines.insert(place, f"print({chance.randrange(100)})")
        made[id] = "\n".join(lines)
    return made
